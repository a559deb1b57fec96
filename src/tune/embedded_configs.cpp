#include "tune/embedded_configs.h"

#include "base/error.h"

namespace msj::tune {

std::string_view config_text(const ConfigTexts &configs, std::string_view name) {
  const auto it = configs.find(name);
  if (it == configs.end()) throw_error(MSJ_ERROR_INTERNAL, "configs/{} is not embedded in this build", name);
  return it->second;
}

}  // namespace msj::tune
