// Regions of images in bins. A bin reads samples between pixels (align) or whole pixels; an image's number outside the
// batch reads nothing.
struct Regions {
  int64_t batch, channels, height, width, rows, columns, sampling, aligned, kind;
  double scale;
};
enum { kAlign, kPlacedAlign, kPlacedPool, kMax };  // placed: every bin has input channels of its own

template <class A> struct Bin {  // one axis of a bin: samples begin + (k + 1/2) step, or pixels [low, high)
  A begin, step;
  int64_t many, low, high;
};
template <class A> INLINE Bin<A> samples_of(const Regions& r, A from, A to, int64_t bin, int64_t bins, bool aligned) {
  const A half = aligned ? A(0.5) : A(0), scale = A(r.scale), start = from * scale - half;
  A extent = to * scale - half - start;
  if (!aligned && extent < A(1)) extent = A(1);
  const A width = extent / A(bins), wanted = ceil(width);
  const int64_t many = r.sampling > 0 ? r.sampling : wanted > 0 ? int64_t(wanted) : 0;
  return {start + A(bin) * width, width, many < (1 << 20) ? many : 0, 0, 0};
}
template <class A> INLINE int64_t pixel(const Regions& r, A x) {
  const A v = round(x * A(r.scale));
  return v > A(-1e9) && v < A(1e9) ? int64_t(v) : v > 0 ? int64_t(1000000000) : int64_t(-1000000000);
}
INLINE int64_t within(int64_t v, int64_t most) { return v < 0 ? 0 : v < most ? v : most; }
template <class A>
INLINE Bin<A> pixels_of(const Regions& r, A from, A to, int64_t bin, int64_t bins, int64_t inclusive, int64_t beyond) {
  const int64_t start = pixel(r, from), own = pixel(r, to) - start + inclusive;
  const A width = A(own > 1 ? own : 1) / A(bins);
  return {A(0), A(0), 0, within(int64_t(floor(A(bin) * width)) + start, beyond),
          within(int64_t(ceil(A(bin + 1) * width)) + start, beyond)};
}
// The two pixels beside sample k: up to one pixel outside it takes the edge, farther away nothing (weights of 0).
template <class A> struct Beside {
  int64_t low, high;
  A first, second;
  INLINE Beside(const Bin<A>& b, int64_t k, int64_t size) : low(0), high(0), first(0), second(0) {
    A x = b.begin + (A(k) + A(0.5)) * b.step / A(b.many);
    if (size == 0 || !(x >= A(-1) && x <= A(size))) return;
    x = x > 0 ? x : A(0);
    const int64_t left = int64_t(x);
    low = left < size - 1 ? left : size - 1;
    high = left < size - 1 ? left + 1 : low;
    second = left < size - 1 ? x - A(left) : A(0);
    first = A(1) - second;
  }
};
// Where element i of [region, plane, row, column] reads: its region's numbers, its bin, the input's plane.
template <class A, class T> struct Element {
  Bin<A> y, x;
  int64_t plane, channel;
  bool exists;
  INLINE Element(const Regions& r, const T* rois, int64_t i) {
    const int64_t column = i % r.columns, row = i / r.columns % r.rows, area = r.rows * r.columns;
    const bool placed = r.kind == kPlacedAlign || r.kind == kPlacedPool;
    const int64_t planes = placed ? r.channels / area : r.channels, c = i / area % planes;
    const T* box = rois + i / (area * planes) * 5;
    const A image = cast<A>(box[0]), x1 = cast<A>(box[1]), y1 = cast<A>(box[2]);
    const A x2 = cast<A>(box[3]), y2 = cast<A>(box[4]);
    exists = image >= A(0) && image < A(r.batch);
    channel = placed ? c * area + row * r.columns + column : c;
    plane = (exists ? int64_t(image) : 0) * r.channels + channel;
    if (r.kind == kMax) {
      y = pixels_of(r, y1, y2, row, r.rows, 1, r.height);
      x = pixels_of(r, x1, x2, column, r.columns, 1, r.width);
    } else if (r.kind == kPlacedPool) {
      y = pixels_of(r, y1, y2, row, r.rows, 0, r.height > 0 ? r.height - 1 : 0);
      x = pixels_of(r, x1, x2, column, r.columns, 0, r.width > 0 ? r.width - 1 : 0);
    } else {
      const bool aligned = r.kind == kPlacedAlign || r.aligned;
      y = samples_of(r, y1, y2, row, r.rows, aligned);
      x = samples_of(r, x1, x2, column, r.columns, aligned);
    }
  }
  // visit(offset in the plane, its share of the mean)
  template <class Visit> INLINE void each(const Regions& r, Visit visit) const {
    if (!exists) return;
    if (r.kind == kPlacedPool) {
      const int64_t many = (y.high - y.low) * (x.high - x.low);
      for (int64_t i = y.low; i < y.high; ++i)
        for (int64_t j = x.low; j < x.high; ++j) visit(i * r.width + j, A(1) / A(many));
      return;
    }
    const A share = A(1) / A(y.many * x.many);
    for (int64_t i = 0; i < y.many; ++i) {
      const Beside<A> v(y, i, r.height);
      for (int64_t j = 0; j < x.many; ++j) {
        const Beside<A> h(x, j, r.width);
        if ((v.first == 0 && v.second == 0) || (h.first == 0 && h.second == 0)) continue;
        visit(v.low * r.width + h.low, v.first * h.first * share);
        visit(v.low * r.width + h.high, v.first * h.second * share);
        visit(v.high * r.width + h.low, v.second * h.first * share);
        visit(v.high * r.width + h.high, v.second * h.second * share);
      }
    }
  }
};

// --- deformable convolution's columns: what each kernel position reads when an offset of its own moves it
struct Deformed {
  int64_t channels, height, width, kh, kw, sh, sw, ph, pw, dh, dw, oh, ow, groups, masked;
};
// visit(offset in the plane, weight, its derivatives by row and column) for what lies inside.
template <class A, class Visit> INLINE void four_taps(const Deformed& s, A y, A x, Visit visit) {
  if (!(y > A(-1) && x > A(-1) && y < A(s.height) && x < A(s.width))) return;
  const A top = floor(y), left = floor(x), down = y - top, right = x - left;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int64_t row = int64_t(top) + (k >> 1), column = int64_t(left) + (k & 1);
    const A by_row = k >> 1 ? down : 1 - down, by_column = k & 1 ? right : 1 - right;
    if (row >= 0 && column >= 0 && row < s.height && column < s.width)
      visit(row * s.width + column, by_row * by_column, (k >> 1 ? A(1) : A(-1)) * by_column,
            (k & 1 ? A(1) : A(-1)) * by_row);
  }
}
// Place `place` of kernel position `tap` of an image's group: where it reads, and its mask.
template <class A, class T> struct Moved {
  int64_t row;  // of the offsets (two rows each) and masks
  A y, x, mask;
  INLINE Moved(const Deformed& s, const T* offset, const T* masks, int64_t image, int64_t group, int64_t tap,
               int64_t place) {
    const int64_t places = s.oh * s.ow;
    row = (image * s.groups + group) * s.kh * s.kw + tap;
    y = A(place / s.ow * s.sh + tap / s.kw * s.dh - s.ph) + cast<A>(offset[2 * row * places + place]);
    x = A(place % s.ow * s.sw + tap % s.kw * s.dw - s.pw) + cast<A>(offset[(2 * row + 1) * places + place]);
    mask = s.masked ? cast<A>(masks[row * places + place]) : A(1);
  }
};
