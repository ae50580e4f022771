#include "archive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace flambeau {
namespace {

// The records of a zip archive (PKWARE's APPNOTE, sections 4.3.7 to 4.3.16): their signatures and lengths.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  // the number stands in the extra field
constexpr size_t kLongestComment = 0xFFFF;

}  // namespace

Archive::Archive(const std::string& path) : path_(path) {
  struct File {
    int number;
    ~File() {
      if (number >= 0) close(number);
    }
  } file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat about;
  if (file.number < 0 || fstat(file.number, &about)) runtime_error(path, ": ", std::strerror(errno));
  if (!S_ISREG(about.st_mode) || size_t(about.st_size) < kEndBytes) damaged("it is no archive");
  void* memory = mmap(nullptr, size_t(about.st_size), PROT_READ | PROT_WRITE, MAP_PRIVATE, file.number, 0);
  if (memory == MAP_FAILED) runtime_error(path, ": ", std::strerror(errno));
  file_ = {static_cast<char*>(memory), size_t(about.st_size)};
  try {
    read_directory();
  } catch (...) {
    munmap(file_.data(), file_.size());
    throw;
  }
}

Archive::~Archive() { munmap(file_.data(), file_.size()); }

void Archive::damaged(const char* why) const {
  value_error(path_, ": ", why, "; programs are written by flambeau.export.save");
}

std::span<char> Archive::entry(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) damaged(("there is no part '" + name + "' in it").c_str());
  return found->second;
}

std::span<char> Archive::ending_in(const std::string& name, bool optional) const {
  for (const auto& [full, part] : entries_)
    if (full == name || full.ends_with("/" + name)) return part;
  return optional ? std::span<char>() : entry(name);
}

template <class T>
T Archive::number(size_t at) const {
  if (at > file_.size() || file_.size() - at < sizeof(T)) damaged("a record reaches beyond its end");
  T value;
  std::memcpy(&value, file_.data() + at, sizeof(T));
  return value;
}

// Where the list of entries begins, and how many there are.
size_t Archive::directory(int64_t& entries) const {
  size_t at = file_.size() - kEndBytes;
  const size_t least = at > kLongestComment ? at - kLongestComment : 0;
  while (number<uint32_t>(at) != kEnd)
    if (at-- == least) damaged("it is no archive, or its end is missing");
  entries = number<uint16_t>(at + 10);
  size_t begin = number<uint32_t>(at + 16);
  if (at >= kLocatorBytes && number<uint32_t>(at - kLocatorBytes) == kLocator64) {
    const size_t end64 = number<uint64_t>(at - kLocatorBytes + 8);
    if (end64 > file_.size() - kEnd64Bytes || number<uint32_t>(end64) != kEnd64) damaged("its end is damaged");
    entries = number<int64_t>(end64 + 32);
    begin = number<uint64_t>(end64 + 48);
  }
  return begin;
}

void Archive::read_directory() {
  int64_t left;
  size_t at = directory(left);
  for (; left > 0; --left) {
    if (number<uint32_t>(at) != kCentral) damaged("its list of parts is damaged");
    const bool stored = number<uint16_t>(at + 10) == 0;
    uint64_t bytes = number<uint32_t>(at + 24), local = number<uint32_t>(at + 42);
    const size_t name = number<uint16_t>(at + 28), extra = number<uint16_t>(at + 30),
                 comment = number<uint16_t>(at + 32), end = at + kCentralBytes + name + extra + comment;
    if (end > file_.size()) damaged("its list of parts is damaged");
    for (size_t field = at + kCentralBytes + name; field + 4 <= end - comment;) {
      const size_t length = number<uint16_t>(field + 2);
      size_t value = field + 4;
      if (number<uint16_t>(field) == 1) {  // sizes and places of 64 bits, in this order, as far as they are needed
        if (bytes == kIn64) bytes = number<uint64_t>(value), value += 8;
        if (number<uint32_t>(at + 20) == kIn64) value += 8;
        if (local == kIn64) local = number<uint64_t>(value);
      }
      field += 4 + length;
    }
    const std::string text(file_.data() + at + kCentralBytes, name);
    if (local > file_.size() || number<uint32_t>(local) != kLocal) damaged("a part is not where it should be");
    const size_t begin = local + kLocalBytes + number<uint16_t>(local + 26) + number<uint16_t>(local + 28);
    if (begin > file_.size() || bytes > file_.size() - begin) damaged("a part reaches beyond its end");
    if (stored) entries_[text] = file_.subspan(begin, bytes);
    at = end;
  }
}

}  // namespace flambeau
