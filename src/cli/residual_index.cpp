#include "cli/residual_index.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>

#include "cli/failure.h"
#include "cli/json_text.h"
#include "cli/npy_read.h"

namespace msj::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kOperands = {"codes",          "residuals", "centroids",
                                                       "bucket_weights", "d_starts",  "d_lengths"};

// ---- the directory, metadata and document lengths

std::int64_t integer_of(const nlohmann::json &value, std::int64_t least, std::int64_t most, const std::string &what) {
  const bool fits =
      value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62);
  const auto number = fits ? value.get<std::int64_t>() : least - 1;
  if (number < least || number > most) {
    failure("{} is {}; an integer from {} to {} is accepted", what, shown(value), least, most);
  }
  return number;
}

void require_directory(const std::string &directory) {
  std::error_code error;
  const fs::file_type type = fs::status(directory, error).type();
  if (type == fs::file_type::directory) return;
  failure("--index {}: {}; a directory of fast-plaid or next-plaid is accepted", directory,
          type == fs::file_type::not_found ? "there is no such directory"
          : type == fs::file_type::none    ? fmt::format("it cannot be reached: {}", error.message())
                                           : "it is no directory");
}

nlohmann::json read_json(const fs::path &file, std::string_view what) {
  return parse_json_text(read_json_text(file, what, Pipes::refused), file.native(), what);
}

struct Metadata {
  std::int64_t nbits = 0;
  std::int64_t chunks = 0;
};

Metadata read_metadata(const OpInfo &op, const fs::path &directory) {
  const fs::path file = directory / "metadata.json";
  const nlohmann::json json = read_json(file, "the index's metadata");
  const auto field = [&](const char *name) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    if (found == json.end()) {
      failure("{}: \"{}\" is missing; an object with \"nbits\" and \"num_chunks\" is accepted", file.native(), name);
    }
    return *found;
  };
  const auto what = [&](const char *name) { return fmt::format("{}: \"{}\"", file.native(), name); };
  Metadata metadata;
  metadata.chunks = integer_of(field("num_chunks"), 1, 1'000'000, what("num_chunks"));
  const nlohmann::json nbits = field("nbits");
  metadata.nbits = nbits.is_number_integer() ? nbits.get<std::int64_t>() : 0;
  const auto &accepted = std::ranges::find(op.sizes, "nbits", &SizeInfo::name)->accepted;
  if (std::ranges::find(accepted, metadata.nbits) == accepted.end()) {
    failure("{} is {}; {} is accepted", what("nbits"), shown(nbits), fmt::join(accepted, ", "));
  }
  return metadata;
}

// The documents of an index: their lengths, and the tokens of each chunk.
struct Documents {
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> chunk_tokens;
  std::int64_t tokens = 0;
};

fs::path lengths_file(const fs::path &directory, std::int64_t chunk) {
  return directory / fmt::format("doclens.{}.json", chunk);
}

Documents read_documents(const fs::path &directory, std::int64_t chunks) {
  Documents documents;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const fs::path file = lengths_file(directory, chunk);
    const nlohmann::json json = read_json(file, "the list of document lengths");
    if (!json.is_array()) failure("{}: it is {}; a list of document lengths is accepted", file.native(), shown(json));
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < json.size(); ++i) {
      const std::int64_t length = integer_of(json[i], 0, std::numeric_limits<std::int32_t>::max(),
                                             fmt::format("{}: length {}", file.native(), i));
      documents.lengths.push_back(static_cast<std::int32_t>(length));
      tokens += length;
    }
    documents.chunk_tokens.push_back(tokens);
    documents.tokens += tokens;
  }
  return documents;
}

// ---- codes and residuals

// `tokens` rows of two files, from row `first` on.
struct Part {
  std::string codes_file, residuals_file;
  std::string lengths_file;  // of its chunk; "": it is of the merged files, which may have more rows
  NpyArray codes, residuals;
  std::int64_t first = 0;
  std::int64_t tokens = 0;
};

void check_rows(const std::string &file, std::int64_t rows, const Part &part) {
  if (part.lengths_file.empty() && rows < part.first + part.tokens) {
    failure("{} has {} rows, but the lengths of doclens.*.json add up to {}; as many rows or more are accepted", file,
            rows, part.first + part.tokens);
  }
  if (!part.lengths_file.empty() && rows != part.tokens) {
    failure("{} has {} rows, but the lengths of {} add up to {}; as many rows are accepted", file, rows,
            part.lengths_file, part.tokens);
  }
}

void check_part(const Part &part, std::int64_t bytes_per_row, std::int64_t d, std::int64_t nbits) {
  if (part.codes.shape.size() != 1 || (part.codes.type != NpyType::i64 && part.codes.type != NpyType::i32)) {
    failure("{} holds {} {}; int64 or int32 of one dimension are accepted", part.codes_file, name(part.codes.type),
            npy_shape_text(part.codes.shape));
  }
  check_rows(part.codes_file, part.codes.shape[0], part);
  // What an empty chunk has may be an empty list of one dimension.
  if (part.tokens == 0 && part.residuals.elements() == 0) return;
  if (part.residuals.shape.size() != 2 || part.residuals.type != NpyType::u8) {
    failure("{} holds {} {}; uint8 of two dimensions are accepted", part.residuals_file, name(part.residuals.type),
            npy_shape_text(part.residuals.shape));
  }
  check_rows(part.residuals_file, part.residuals.shape[0], part);
  if (part.residuals.shape[1] != bytes_per_row) {
    failure("{} has {} bytes a row; {} are accepted for d {} and nbits {}", part.residuals_file,
            part.residuals.shape[1], bytes_per_row, d, nbits);
  }
}

Part open_part(const fs::path &directory, const std::string &prefix, std::int64_t tokens) {
  Part part;
  part.codes_file = (directory / (prefix + "codes.npy")).native();
  part.residuals_file = (directory / (prefix + "residuals.npy")).native();
  part.codes = read_npy(part.codes_file);
  part.residuals = read_npy(part.residuals_file);
  part.tokens = tokens;
  return part;
}

// Whether the name is there, whatever it leads to: a file that can't be read must not pass for one never written, or
// an older copy would be scored in its place.
bool is_there(const fs::path &file) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(file, error).type();
  if (type == fs::file_type::none) failure("{}: the file cannot be looked for: {}", file.native(), error.message());
  return type != fs::file_type::not_found;
}

// A chunk's own files hold its tokens where they are there: all of them in older indexes, in which the merged files are
// copies that may be out of date; in those of fast-plaid 1.7, the chunks that an update has not merged yet. Else its
// tokens are in the merged files, behind those of the chunks before it.
std::vector<Part> open_parts(const fs::path &directory, const Documents &documents) {
  const bool has_merged = is_there(directory / "merged_codes.npy") || is_there(directory / "merged_residuals.npy");
  std::vector<Part> parts;
  std::int64_t first = 0;
  for (std::size_t chunk = 0; chunk < documents.chunk_tokens.size(); ++chunk) {
    const std::int64_t tokens = documents.chunk_tokens[chunk];
    const std::string prefix = fmt::format("{}.", chunk);
    if (is_there(directory / (prefix + "codes.npy")) || is_there(directory / (prefix + "residuals.npy"))) {
      parts.push_back(open_part(directory, prefix, tokens));
      parts.back().lengths_file = lengths_file(directory, static_cast<std::int64_t>(chunk)).filename().native();
    } else if (!has_merged) {
      failure(
          "{}: neither {}codes.npy nor merged_codes.npy is there, for {} chunks that metadata.json names; one of "
          "them is accepted",
          directory.native(), prefix, documents.chunk_tokens.size());
    } else if (!parts.empty() && parts.back().lengths_file.empty()) {
      parts.back().tokens += tokens;
    } else {
      parts.push_back(open_part(directory, "merged_", tokens));
      parts.back().first = first;
    }
    first += tokens;
  }
  return parts;
}

std::shared_ptr<std::vector<std::byte>> make_bytes(std::int64_t count) {
  return std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(count));
}

std::int64_t code_at(const NpyArray &codes, std::int64_t token) {
  const std::byte *from = codes.data + token * bytes(codes.type);
  return codes.type == NpyType::i64 ? load_npy<std::int64_t>(from, codes.is_swapped)
                                    : load_npy<std::int32_t>(from, codes.is_swapped);
}

// int32, each a centroid's; what padding holds is not looked at.
std::shared_ptr<std::vector<std::byte>> join_codes(const std::vector<Part> &parts, std::int64_t tokens,
                                                   std::int64_t centroids) {
  auto joined = make_bytes(tokens * 4);
  std::byte *to = joined->data();
  for (const Part &part : parts) {
    for (std::int64_t token = 0; token < part.tokens; ++token, to += sizeof(std::int32_t)) {
      const std::int64_t code = code_at(part.codes, part.first + token);
      if (code < 0 || code >= centroids) {
        failure("{} has the code {} at row {}; 0 to {} are accepted, the rows of centroids.npy", part.codes_file, code,
                part.first + token, centroids - 1);
      }
      const auto narrow = static_cast<std::int32_t>(code);
      std::memcpy(to, &narrow, sizeof narrow);
    }
  }
  return joined;
}

bool is_in_rows(const NpyArray &array) { return array.shape.size() == 2 && array.strides[1] == 1; }

void copy_residuals(const Part &part, std::byte *to) {
  if (part.tokens == 0) return;
  const NpyArray &array = part.residuals;
  const std::int64_t width = array.shape[1];
  const std::byte *from = array.data + part.first * array.strides[0];
  if (is_in_rows(array)) {
    std::memcpy(to, from, static_cast<std::size_t>(part.tokens * width));
    return;
  }
  for (std::int64_t row = 0; row < part.tokens; ++row) {
    for (std::int64_t i = 0; i < width; ++i) *to++ = from[row * array.strides[0] + i * array.strides[1]];
  }
}

HostTensor join_residuals(const OperandInfo &operand, const std::vector<Part> &parts, std::int64_t tokens,
                          std::int64_t bytes_per_row) {
  const Part &first = parts.front();
  std::vector<std::int64_t> shape = {tokens, bytes_per_row};
  if (parts.size() == 1 && is_in_rows(first.residuals)) {  // where they lie
    HostTensor tensor;
    tensor.operand = &operand;
    tensor.source = first.residuals_file;
    tensor.dtype = DType::u8;
    tensor.shape = std::move(shape);
    tensor.strides = {bytes_per_row, 1};
    tensor.data = first.residuals.data;
    tensor.owner = first.residuals.owner;
    return tensor;
  }
  auto joined = make_bytes(tokens * bytes_per_row);
  std::byte *to = joined->data();
  for (const Part &part : parts) {
    copy_residuals(part, to);
    to += part.tokens * bytes_per_row;
  }
  return make_tensor(operand, first.residuals_file, DType::u8, std::move(shape), std::move(joined));
}

// ---- which documents

std::vector<std::int64_t> read_candidates(const std::string &file, std::size_t documents) {
  const NpyArray array = read_npy(file);
  if (array.shape.size() != 1 || (array.type != NpyType::i64 && array.type != NpyType::i32)) {
    failure("--candidates {} holds {} {}; int64 or int32 of one dimension are accepted", file, name(array.type),
            npy_shape_text(array.shape));
  }
  std::vector<std::int64_t> candidates;
  for (std::int64_t i = 0; i < array.elements(); ++i) {
    const std::int64_t document = code_at(array, i);
    if (document < 0 || document >= static_cast<std::int64_t>(documents)) {
      failure("--candidates {} names document {}; the index has {}, counted from 0", file, document, documents);
    }
    candidates.push_back(document);
  }
  return candidates;
}

template <typename T>
HostTensor tensor_of(const OperandInfo &operand, const std::string &source, DType dtype, const std::vector<T> &values) {
  auto data = make_bytes(static_cast<std::int64_t>(values.size() * sizeof(T)));
  if (!values.empty()) std::memcpy(data->data(), values.data(), data->size());
  return make_tensor(operand, source, dtype, {static_cast<std::int64_t>(values.size())}, std::move(data));
}

// d_starts and d_lengths of all documents, or of those that the index names.
void add_places(const OpInfo &op, const std::string &directory, const Documents &documents, ResidualIndex &index) {
  std::vector<std::int64_t> starts;
  std::int64_t start = 0;
  for (const std::int32_t length : documents.lengths) {
    starts.push_back(start);
    start += length;
  }
  std::vector<std::int32_t> lengths = documents.lengths;
  if (index.documents) {
    const std::vector<std::int64_t> all = std::move(starts);
    starts.clear();
    lengths.clear();
    for (const std::int64_t document : *index.documents) {
      starts.push_back(all[static_cast<std::size_t>(document)]);
      lengths.push_back(documents.lengths[static_cast<std::size_t>(document)]);
    }
  }
  index.tensors.push_back(tensor_of(*op.find_operand("d_starts"), directory, DType::i64, starts));
  index.tensors.push_back(tensor_of(*op.find_operand("d_lengths"), directory, DType::i32, lengths));
}

// ---- centroids and weights

HostTensor load_matrix(const OpInfo &op, std::string_view operand, const fs::path &file, std::optional<DType> wanted,
                       Console &console) {
  return load_operand(*op.find_operand(operand), file.native(), wanted, console, file.native());
}

void check_shapes(const HostTensor &centroids, const HostTensor &weights, std::int64_t nbits) {
  if (centroids.shape.size() != 2 || centroids.elements() == 0) {
    failure("{} has shape {}; [K, d] is accepted, none of them 0", centroids.source, npy_shape_text(centroids.shape));
  }
  if (weights.shape != std::vector<std::int64_t>{std::int64_t{1} << nbits}) {
    failure("{} has shape {}; ({},) is accepted for nbits {}", weights.source, npy_shape_text(weights.shape),
            std::int64_t{1} << nbits, nbits);
  }
}

}  // namespace

bool is_of_index(std::string_view operand) { return std::ranges::find(kOperands, operand) != kOperands.end(); }

bool takes_index(const OpInfo &op) {
  return std::ranges::all_of(kOperands, [&](std::string_view name) { return op.find_operand(name) != nullptr; });
}

ResidualIndex load_residual_index(const OpInfo &op, const std::string &directory, const std::string &candidates,
                                  std::optional<DType> wanted, Console &console) {
  require_directory(directory);
  const fs::path root(directory);
  const Metadata metadata = read_metadata(op, root);
  const Documents documents = read_documents(root, metadata.chunks);
  HostTensor centroids = load_matrix(op, "centroids", root / "centroids.npy", wanted, console);
  // The libraries keep weights in float32 beside centroids in float16, and compute in the centroids' dtype.
  HostTensor weights = load_matrix(op, "bucket_weights", root / "bucket_weights.npy", centroids.dtype, console);
  check_shapes(centroids, weights, metadata.nbits);
  const std::int64_t d = centroids.shape[1];
  const std::int64_t bytes_per_row = (d * metadata.nbits + 7) / 8;
  const std::vector<Part> parts = open_parts(root, documents);
  for (const Part &part : parts) check_part(part, bytes_per_row, d, metadata.nbits);

  ResidualIndex index;
  const std::int64_t count = centroids.shape[0];
  index.tensors.push_back(make_tensor(*op.find_operand("codes"), parts.front().codes_file, DType::i32,
                                      {documents.tokens}, join_codes(parts, documents.tokens, count)));
  index.tensors.push_back(join_residuals(*op.find_operand("residuals"), parts, documents.tokens, bytes_per_row));
  if (!candidates.empty()) index.documents = read_candidates(candidates, documents.lengths.size());
  add_places(op, directory, documents, index);
  index.tensors.push_back(std::move(centroids));
  index.tensors.push_back(std::move(weights));
  return index;
}

}  // namespace msj::cli
