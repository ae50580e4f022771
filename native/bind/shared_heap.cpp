// Python's small objects in forked workers: pages that only reference counts have touched become common pages again.
//
// A forked process shares all pages with its parent until one of them writes to a page. Looking at an object writes to
// its reference count, so workers that read a large list of objects end up with a copy each. Against this, the parent
// writes its small objects' memory (the arenas of Python's allocator) into an anonymous file, and a worker, before it
// does anything else, replaces those of its pages that equal the file's by private mappings of the file. A page that is
// written to later is a copy, as before; but when the reference counts are back at their values it equals the file
// again, and then the worker drops its copy. Every page is compared before it is replaced, so the contents never
// change.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "python.h"
#include "slot.h"
#include "storage.h"

namespace flambeau {
namespace {

struct Range {
  char* start;
  size_t size;
  char* file;  // the same bytes in the mapped file; null for arenas
  char* end() const { return start + size; }
};

// All are guarded by the interpreter lock, and never destroyed: arenas are freed after static objects.
std::vector<Range>& arenas = *new std::vector<Range>;
std::vector<Range>& common = *new std::vector<Range>;  // mapped from the file; sorted
PyObjectArenaAllocator system_arenas;
const size_t kPage = size_t(sysconf(_SC_PAGESIZE));
constexpr size_t kMostMappings = 8192;  // a process may have 65530

// --- which memory Python's small objects are in ----------------------------------------------------------------------

// What lies in [start, start + size) is no longer common: other memory may come there.
void cut(char* start, size_t size) {
  for (size_t k = 0; k < common.size(); ++k) {
    Range r = common[k];
    char *from = std::max(r.start, start), *to = std::min(r.end(), start + size);
    if (from >= to) continue;
    common.erase(common.begin() + k);
    if (to < r.end()) common.insert(common.begin() + k, {to, size_t(r.end() - to), r.file + (to - r.start)});
    if (r.start < from) common.insert(common.begin() + k++, {r.start, size_t(from - r.start), r.file});
  }
}

void* make_arena(void*, size_t size) {
  void* p = system_arenas.alloc(system_arenas.ctx, size);
  if (p) try {
      arenas.push_back({static_cast<char*>(p), size, nullptr});
    } catch (const std::bad_alloc&) {
      // an arena that is not known is not shared
    }
  return p;
}

void free_arena(void*, void* p, size_t size) {
  auto found = std::find_if(arenas.begin(), arenas.end(), [&](const Range& r) { return r.start == p; });
  if (found != arenas.end()) arenas.erase(found);
  try {
    if (!common.empty()) cut(static_cast<char*>(p), size);
  } catch (const std::bad_alloc&) {
    common.clear();
  }
  system_arenas.free(system_arenas.ctx, p, size);
}

PyObject* pair(int64_t a, int64_t b) { return Py_BuildValue("LL", (long long)a, (long long)b); }

// heap_arenas(): [(address, bytes)] of the memory that Python has taken for small objects since this package loaded.
PyObject* heap_arenas(PyObject*, PyObject*) {
  std::vector<Range> sorted = arenas;
  std::sort(sorted.begin(), sorted.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  Held list = checked(PyList_New(0));
  for (size_t k = 0; k < sorted.size();) {
    Range r = sorted[k++];
    while (k < sorted.size() && sorted[k].start == r.end()) r.size += sorted[k++].size;
    Held item = checked(pair(int64_t(r.start), int64_t(r.size)));
    if (PyList_Append(list.p, item.p) < 0) return nullptr;
  }
  return list.give();
}

std::vector<Range> ranges_of(PyObject* list) {
  std::vector<Range> found;
  for (Py_ssize_t k = 0; k < PyList_Size(list); ++k) {
    long long start, size;
    if (!PyArg_ParseTuple(PyList_GetItem(list, k), "LL", &start, &size)) throw PythonError();
    found.push_back({reinterpret_cast<char*>(start), size_t(size), nullptr});
  }
  return found;
}

// --- the parent's side -----------------------------------------------------------------------------------------------

// heap_write(fd, ranges): writes the ranges into a file, one after the other.
PyObject* heap_write(PyObject*, PyObject* args) {
  int fd;
  PyObject* list;
  if (!PyArg_ParseTuple(args, "iO!", &fd, &PyList_Type, &list)) return nullptr;
  off_t place = 0;
  for (const Range& r : ranges_of(list))
    for (size_t done = 0; done < r.size;) {
      ssize_t n = pwrite(fd, r.start + done, r.size - done, place);
      if (n <= 0) return PyErr_SetFromErrno(PyExc_OSError);
      done += size_t(n), place += n;
    }
  Py_RETURN_NONE;
}

// --- the worker's side -----------------------------------------------------------------------------------------------

// Maps the file over the pages of `r` that equal it. No other thread may run.
void map_equal(const Range& r, int fd, off_t place) {
  for (size_t from = 0; from < r.size && common.size() < kMostMappings;) {
    size_t to = from;
    while (to < r.size && !memcmp(r.start + to, r.file + to, kPage)) to += kPage;
    if (to > from) {
      void* at = mmap(r.start + from, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
                      place + off_t(from));
      if (at == MAP_FAILED) return;
      common.push_back({r.start + from, to - from, r.file + from});
    }
    from = to + kPage;
  }
}

// heap_adopt(fd, ranges): what heap_write wrote is mapped where it is the same; returns how many bytes that are. Memory
// that the parent has given back before the fork is not there any more.
PyObject* heap_adopt(PyObject*, PyObject* args) {
  int fd;
  PyObject* list;
  if (!PyArg_ParseTuple(args, "iO!", &fd, &PyList_Type, &list)) return nullptr;
  std::vector<Range> ranges = ranges_of(list);
  common.clear();
  common.reserve(kMostMappings + 1);
  off_t place = 0;
  size_t bytes = 0;
  for (Range& r : ranges) {
    void* file = mmap(nullptr, r.size, PROT_READ, MAP_SHARED, fd, place);
    if (file == MAP_FAILED) break;
    r.file = static_cast<char*>(file);
    for (const Range& a : arenas) {
      char *from = std::max(r.start, a.start), *to = std::min(r.end(), a.end());
      const off_t at = from - r.start;
      if (from < to) map_equal({from, size_t(to - from), r.file + at}, fd, place + at);
    }
    place += off_t(r.size);
  }
  std::ranges::sort(common, {}, &Range::start);
  for (const Range& r : common) bytes += r.size;
  return PyLong_FromSize_t(bytes);
}

// The kernel's list of pages (linux/fs.h; since 6.7), so that its header is not needed to build.
struct PageRegion {
  uint64_t start, end, categories;
};
struct PageScan {
  uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, any_of, wanted;
};
constexpr unsigned long kScan = _IOWR('f', 16, PageScan);
constexpr uint64_t kIsFile = 1 << 2, kIsPresent = 1 << 3;
constexpr uint64_t kBitPresent = uint64_t(1) << 63, kBitFile = uint64_t(1) << 61;

// Calls visit(first, last) for the parts of `r` that are pages of this process alone.
template <class F>
bool own_pages(int pagemap, const Range& r, const F& visit) {
  PageRegion found[256];
  PageScan scan{};
  scan.size = sizeof(scan), scan.start = uint64_t(r.start), scan.end = uint64_t(r.end());
  scan.vec = uint64_t(found), scan.vec_len = std::size(found);
  scan.inverted = kIsFile, scan.mask = scan.wanted = kIsPresent | kIsFile;
  while (scan.start < scan.end) {
    int n = ioctl(pagemap, kScan, &scan);
    if (n < 0) return false;
    for (int k = 0; k < n; ++k) visit(reinterpret_cast<char*>(found[k].start), reinterpret_cast<char*>(found[k].end));
    scan.start = scan.walk_end;
  }
  return true;
}

template <class F>
bool own_pages_by_entries(int pagemap, const Range& r, const F& visit) {
  uint64_t entries[512];
  for (char* at = r.start; at < r.end();) {
    size_t pages = std::min(std::size(entries), size_t(r.end() - at) / kPage);
    ssize_t n = pread(pagemap, entries, pages * 8, off_t(uint64_t(at) / kPage * 8));
    if (n != ssize_t(pages * 8)) return false;
    for (size_t k = 0; k < pages; ++k, at += kPage)
      if ((entries[k] & (kBitPresent | kBitFile)) == kBitPresent) visit(at, at + kPage);
  }
  return true;
}

// heap_restore(): drops this process's copies of pages that equal the file again; returns how many pages. No other
// thread may write to Python's small objects meanwhile.
PyObject* heap_restore(PyObject*, PyObject*) {
  int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return PyErr_SetFromErrno(PyExc_OSError);
  size_t dropped = 0;
  for (const Range& r : common) {
    auto drop_equal = [&](char* first, char* last) {
      for (char* from = first; from < last;) {
        char* to = from;
        while (to < last && !memcmp(to, r.file + (to - r.start), kPage)) to += kPage;
        if (to > from && !madvise(from, size_t(to - from), MADV_DONTNEED)) dropped += size_t(to - from) / kPage;
        from = to + kPage;
      }
    };
    if (!own_pages(pagemap, r, drop_equal) && !own_pages_by_entries(pagemap, r, drop_equal)) break;
  }
  close(pagemap);
  return PyLong_FromSize_t(dropped);
}

PyMethodDef functions[] = {
    {"heap_arenas", slot<heap_arenas>, METH_NOARGS, nullptr},
    {"heap_write", slot<heap_write>, METH_VARARGS, nullptr},
    {"heap_adopt", slot<heap_adopt>, METH_VARARGS, nullptr},
    {"heap_restore", slot<heap_restore>, METH_NOARGS, nullptr},
    {},
};

}  // namespace

void add_shared_heap(PyObject* module) {
  PyObject_GetArenaAllocator(&system_arenas);
  PyObjectArenaAllocator ours{nullptr, make_arena, free_arena};
  PyObject_SetArenaAllocator(&ours);
  if (PyModule_AddFunctions(module, functions) < 0) throw PythonError();
}

}  // namespace flambeau
