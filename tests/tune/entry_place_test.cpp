#include "tune/entry_place.h"

#include <doctest/doctest.h>

#include "toy_op.h"
#include "tune/entry.h"

using namespace msj;
using namespace msj::testing;

TEST_CASE("an entry's place is the one where a lookup of its key looks") {
  for (const auto &key : {toy_key(), toy_key(toy_sizes(1, 100000, 32, 60)),
                          toy_key(toy_sizes(9, 100, 32, 60), {DType::f16, DType::bf16})}) {
    tune::Entry entry;
    entry.op = "toy";
    entry.environment = "here";
    CHECK(tune::entry_place(to_json(entry, key)) == "here/autotune/toy/" + key.text() + ".json");
  }
}
