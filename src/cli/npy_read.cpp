#include "cli/npy_read.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "cli/file_descriptor.h"
#include "cli/mapping.h"
#include "cli/npy_header.h"

namespace msj::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "byte order of files is judged against little endian");

std::string system_message(int error) { return std::generic_category().message(error); }

std::vector<std::int64_t> strides_of(std::span<const std::int64_t> shape, bool fortran_order) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t dimension = fortran_order ? i : shape.size() - 1 - i;
    strides[dimension] = stride;
    stride *= std::max<std::int64_t>(shape[dimension], 1);
  }
  return strides;
}

void require_regular(const struct stat &status, std::string_view file) {
  if (S_ISDIR(status.st_mode)) npy_failure(file, "this is a directory; accepted: a .npy file");
  if (!S_ISREG(status.st_mode)) npy_failure(file, "this is a device, pipe or socket; accepted: a regular .npy file");
}

}  // namespace

std::int64_t NpyArray::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

NpyArray parse_npy(std::span<const std::byte> file_bytes, std::string_view file) {
  NpyHeader header = parse_npy_header(file_bytes, file);
  const std::int64_t elements = npy_elements(header.shape, header.type, file);
  const auto data = file_bytes.subspan(header.data_begin);
  const auto wanted = static_cast<std::size_t>(elements * bytes(header.type));
  if (data.size() < wanted) {
    npy_failure(file, "the file is truncated: shape {} of {} needs {} bytes of data, it has {}",
                npy_shape_text(header.shape), name(header.type), wanted, data.size());
  }
  std::vector<std::int64_t> strides = strides_of(header.shape, header.fortran_order);
  return {header.type, std::move(header.shape), std::move(strides), data.data(), nullptr, header.is_big_endian};
}

NpyArray read_npy(const std::filesystem::path &path) {
  const std::string &file = path.native();
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (descriptor.get() < 0) {
    const int error = errno;
    if (::stat(path.c_str(), &status) == 0) require_regular(status, file);  // a socket can't be opened at all
    npy_failure(file, "the file cannot be opened: {}", system_message(error));
  }
  if (::fstat(descriptor.get(), &status) != 0) npy_failure(file, "the file cannot be read: {}", system_message(errno));
  require_regular(status, file);
  auto mapping = std::make_shared<const Mapping>(descriptor.get(), static_cast<std::size_t>(status.st_size), file);
  NpyArray array = parse_npy(mapping->bytes(), file);
  array.owner = std::move(mapping);
  return array;
}

std::vector<std::byte> copy_npy(const NpyArray &array) {
  std::vector<std::byte> copy(array.data, array.data + array.bytes());
  if (!array.is_swapped) return copy;
  const auto element_bytes = static_cast<std::size_t>(bytes(array.type));
  for (std::size_t i = 0; i < copy.size(); i += element_bytes) {
    std::ranges::reverse(std::span(copy).subspan(i, element_bytes));
  }
  return copy;
}

}  // namespace msj::cli
