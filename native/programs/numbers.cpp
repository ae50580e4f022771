// What programs compute with sizes and other numbers: Python's functions of int, float and bool, in 64 bits.
#include <algorithm>
#include <cmath>

#include "routine.h"

namespace flambeau::programs {
namespace {

using Given = std::span<const Content>;

[[noreturn]] void too_large(const char* what) {
  fail(ErrorKind::Overflow, "a size computed by ", what, " does not fit in 64 bits");
}
const Value& number(Given g, size_t k) {
  if (k >= g.size()) value_error("a function of numbers lacks an operand");
  const Value& v = g[k].value;
  if (!v.is_number() || v.tag == Tag::Complex) value_error("a function of numbers got no number");
  return v;
}
bool integral(const Value& v) { return v.tag != Tag::Float; }
int64_t integer(const Value& v) { return v.tag == Tag::Bool ? int64_t(v.b) : v.i; }
int64_t integer(Given g, size_t k) {
  const Value& v = number(g, k);
  if (!integral(v)) value_error("a function of integers got ", v.f);
  return integer(v);
}
double real(const Value& v) { return integral(v) ? double(integer(v)) : v.f; }

// By what the operands are: both integers, or at least one a float.
template <class I, class F>
Value either(Given g, const I& of_ints, const F& of_floats) {
  const Value &a = number(g, 0), &b = number(g, 1);
  if (integral(a) && integral(b)) return Value(of_ints(integer(a), integer(b)));
  return Value(of_floats(real(a), real(b)));
}
template <class F>
Value compared(Given g, const F& f) {
  return either(g, [&](int64_t a, int64_t b) { return f(a, b); }, [&](double a, double b) { return f(a, b); });
}

void not_zero(bool zero) {
  if (zero) value_error("a size is divided by zero");
}
int64_t floor_div(int64_t a, int64_t b) {
  not_zero(b == 0);
  if (a == INT64_MIN && b == -1) too_large("//");
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t floor_mod(int64_t a, int64_t b) {
  not_zero(b == 0);
  if (b == -1) return 0;
  const int64_t m = a % b;
  return m + (m != 0 && (m < 0) != (b < 0) ? b : 0);
}
double float_mod(double a, double b) {
  not_zero(b == 0);
  const double m = std::fmod(a, b);
  return m != 0 && (m < 0) != (b < 0) ? m + b : std::copysign(m, m != 0 ? m : b);
}
Value add(Given g) {
  return either(g, [](int64_t a, int64_t b) {
    int64_t n;
    if (__builtin_add_overflow(a, b, &n)) too_large("+");
    return n;
  }, [](double a, double b) { return a + b; });
}
Value sub(Given g) {
  return either(g, [](int64_t a, int64_t b) {
    int64_t n;
    if (__builtin_sub_overflow(a, b, &n)) too_large("-");
    return n;
  }, [](double a, double b) { return a - b; });
}
int64_t product(int64_t a, int64_t b) {
  int64_t n;
  if (__builtin_mul_overflow(a, b, &n)) too_large("*");
  return n;
}
Value mul(Given g) { return either(g, product, [](double a, double b) { return a * b; }); }
Value pow(Given g) {
  const Value &a = number(g, 0), &b = number(g, 1);
  if (!integral(a) || !integral(b) || integer(b) < 0) return Value(std::pow(real(a), real(b)));
  int64_t n = 1, base = integer(a);
  for (int64_t e = integer(b); e > 0; e >>= 1) {
    if (e & 1) n = product(n, base);
    if (e > 1) base = product(base, base);
  }
  return Value(n);
}
Value truediv(Given g) {
  not_zero(real(number(g, 1)) == 0);
  return Value(real(number(g, 0)) / real(number(g, 1)));
}
Value floordiv(Given g) {
  return either(g, floor_div, [](double a, double b) {
    not_zero(b == 0);
    return std::floor(a / b);
  });
}
Value mod(Given g) { return either(g, floor_mod, float_mod); }
Value negative(Given g) {
  const Value& v = number(g, 0);
  if (!integral(v)) return Value(-v.f);
  if (integer(v) == INT64_MIN) too_large("-");
  return Value(-integer(v));
}
Value positive(Given g) { return integral(number(g, 0)) ? Value(integer(g, 0)) : number(g, 0); }
Value absolute(Given g) { return real(number(g, 0)) < 0 ? negative(g) : positive(g); }

// A float as an integer.
Value whole(double v) {
  if (!(v >= -0x1p63 && v < 0x1p63)) too_large("rounding a float");
  return Value(int64_t(v));
}
template <double (*Round)(double)>
Value rounded(Given g) {
  return integral(number(g, 0)) ? Value(integer(g, 0)) : whole(Round(number(g, 0).f));
}
double trunc_of(double v) { return std::trunc(v); }
double floor_of(double v) { return std::floor(v); }
double ceil_of(double v) { return std::ceil(v); }
double even_of(double v) { return std::nearbyint(v); }
Value root(Given g) {
  const double v = real(number(g, 0));
  if (v < 0) value_error("the square root of ", v, " is asked for");
  return Value(std::sqrt(v));
}

template <bool Larger>
Value extreme(Given g) {
  const bool second = compared(g, [](auto a, auto b) { return Larger ? b > a : b < a; }).b;
  return number(g, second);
}
Value sum(Given g) {
  Content total{Value(int64_t(0))};
  for (const Content& c : g) {
    const Content both[] = {total, c};
    total = Content(add(both));
  }
  return total.value;
}
bool both_bools(Given g) { return number(g, 0).tag == Tag::Bool && number(g, 1).tag == Tag::Bool; }
template <class F>
Value of_bits(Given g, const F& f) {
  const int64_t n = f(integer(g, 0), integer(g, 1));
  return both_bools(g) ? Value(n != 0) : Value(n);
}
Value shift_left(Given g) {
  const int64_t a = integer(g, 0), by = integer(g, 1);
  if (by < 0 || (a && by > 62)) too_large("<<");
  return Value(a ? product(a, int64_t(1) << by) : int64_t(0));
}
Value shift_right(Given g) {
  const int64_t by = integer(g, 1);
  if (by < 0) value_error("a number is shifted by ", by);
  return Value(integer(g, 0) >> std::min<int64_t>(by, 63));
}

// Of tensors.
const Tensor& tensor(Given g) {
  if (g.empty() || !g[0].tensor) value_error("a size is asked for of what is no tensor");
  return *g[0].tensor;
}
int64_t along(Given g, Dims of) { return of[size_t(wrap_dim(integer(g, 1), int64_t(of.size()), "size"))]; }

constexpr struct { std::string_view name; Number f; } kNumbers[] = {
    {"add", add}, {"sub", sub}, {"mul", mul}, {"pow", pow}, {"truediv", truediv}, {"floordiv", floordiv},
    {"mod", mod}, {"neg", negative}, {"pos", positive}, {"abs", absolute}, {"sym_sqrt", root}, {"sqrt", root},
    {"eq", [](Given g) { return compared(g, [](auto a, auto b) { return a == b; }); }},
    {"ne", [](Given g) { return compared(g, [](auto a, auto b) { return a != b; }); }},
    {"lt", [](Given g) { return compared(g, [](auto a, auto b) { return a < b; }); }},
    {"le", [](Given g) { return compared(g, [](auto a, auto b) { return a <= b; }); }},
    {"gt", [](Given g) { return compared(g, [](auto a, auto b) { return a > b; }); }},
    {"ge", [](Given g) { return compared(g, [](auto a, auto b) { return a >= b; }); }},
    {"and_", [](Given g) { return of_bits(g, [](int64_t a, int64_t b) { return a & b; }); }},
    {"or_", [](Given g) { return of_bits(g, [](int64_t a, int64_t b) { return a | b; }); }},
    {"xor", [](Given g) { return of_bits(g, [](int64_t a, int64_t b) { return a ^ b; }); }},
    {"invert", [](Given g) { return Value(~integer(g, 0)); }},
    {"lshift", shift_left}, {"rshift", shift_right},
    {"trunc", rounded<trunc_of>}, {"floor", rounded<floor_of>}, {"ceil", rounded<ceil_of>}, {"round", rounded<even_of>},
    {"sym_int", rounded<trunc_of>},
    {"sym_float", [](Given g) { return Value(real(number(g, 0))); }},
    {"sym_not", [](Given g) { return Value(real(number(g, 0)) == 0); }},
    {"sym_max", extreme<true>}, {"sym_min", extreme<false>},
    {"sym_ite", [](Given g) { return real(number(g, 0)) != 0 ? number(g, 1) : number(g, 2); }},
    {"sym_sum", sum},
    {"item", [](Given g) { return number_of(tensor(g), "item()"); }},
    {"size", [](Given g) { return Value(along(g, tensor(g).shape())); }},
    {"stride", [](Given g) { return Value(along(g, tensor(g).stride())); }},
    {"numel", [](Given g) { return Value(tensor(g).numel); }},
    {"storage_offset", [](Given g) { return Value(tensor(g).offset()); }},
};

}  // namespace

Number find_number(std::string_view name) {
  for (const auto& each : kNumbers)
    if (each.name == name) return each.f;
  return nullptr;
}

}  // namespace flambeau::programs
