// The inverse error function and the derivative of the gamma function's logarithm, in double and without branches.

inline double erfinv_mid_poly(double t) {
  return horner(t, 1.6536545626831027, 0.75049432007996358, -0.058922567103787135, -0.022604447453450232,
                0.01780836181873851, -0.004137314377403391, -0.0012716922767024804, 0.0012324855685500931,
                -0.00026439358874860611, -0.00011688883906368397, 9.336693850145469e-5,
                -1.5027713926607708e-5, -1.1255684830319912e-5, 7.1300663740768032e-6,
                -6.8759766044904705e-7, -1.0593369313281055e-6, 5.4557314494414916e-7,
                -1.0167881522667659e-8, -1.0509863560327061e-7, 3.91426710012073e-8, 9.0505163627754387e-9,
                -8.5579840744296514e-9, -8.1864429164465752e-11, 7.6809904754902919e-10);
}
inline double erfinv_tail_poly(double t) {
  return horner(t, 3.0838856104922206, 0.75394422577061935, 0.0030211394363839932, -0.0015825410891258779,
                0.00078830785100019651, -0.00040063570330678667, 0.00016966502589887311,
                -4.739178769056888e-5, 2.405839302031157e-6, 5.1271450753204668e-6, -2.6646986281363753e-6,
                5.2689924532186128e-7, 9.2676972709936179e-8, -9.5361903318473309e-8, 2.6703450893214522e-8,
                2.457367667912281e-10, -2.7192930488740746e-9, 6.8173091452384855e-10,
                3.8645975308357316e-12);
}
inline double erfinv_far_poly(double t) {
  return horner(t, 4.9004210514436404, 1.0607992684776605, -0.00018726854587221996, -0.00023188618673312447,
                8.6593048667674843e-5, -2.3451081695691086e-5, 5.6201649314465249e-6,
                -1.2763611159664724e-6, 2.9788420271490167e-7, -8.5217566825958055e-8,
                3.5542507808422227e-8, -1.9168484886373816e-8, 1.0431569308888431e-8,
                -4.9614407546638059e-9, 2.0706626485109551e-9, -8.0414111498012869e-10,
                1.7171209505455172e-10, 6.6243959316094417e-11, -3.7742013942025441e-11);
}
// erfinv(a) / a as a function of c = 1 - a^2, for c >= 8e-17; of w = -log c, in the middle and anywhere
FLAMBEAU_INLINE bool erfinv_is_middle(double w) { return w < 6.25; }
FLAMBEAU_INLINE double erfinv_middle(double w) { return erfinv_mid_poly(fma_(w, 1 / 3.125, -1.)); }
FLAMBEAU_INLINE double erfinv_from_log(double w) {
  double s = std::sqrt(w), tail = erfinv_tail_poly((s - 3.25) / 0.75), far = erfinv_far_poly((s - 5.05) / 1.05);
  return erfinv_is_middle(w) ? erfinv_middle(w) : w < 16 ? tail : far;
}
FLAMBEAU_INLINE double erfinv_ratio(double c) { return erfinv_from_log(-log_(c)); }
FLAMBEAU_INLINE double erfinv_times(double x, double ratio) {
  double a = abs_(x), value = a == 1 ? x * inf<double> : x * ratio;
  return a > 1 ? nan<double> : value;
}
FLAMBEAU_INLINE double erfinv_(double x) { return erfinv_times(x, erfinv_ratio((1 - abs_(x)) * (1 + abs_(x)))); }

inline double sinpi_poly(double t) {
  return horner(t, 2.5343242626615979, -0.56970368030763405, 0.036453105597104919, -0.0010924320054892531,
                1.8956829135131983e-5, -2.1447169597692547e-7, 1.707058303372582e-9,
                -1.0077340315799801e-11);
}
inline double cospi_poly(double t) {
  return horner(t, 0.44401584032621323, -0.49761340533700288, 0.055930528024297853, -0.0023858501821746723,
                5.3624630671739384e-5, -7.4443293989166089e-7, 7.0185698404130051e-9,
                -4.7882551686615333e-11, 2.4733412427050593e-13);
}
// psi(x): nine steps of the recurrence as one fraction, the asymptotic series (DLMF 5.11.2), below 0 the reflection
FLAMBEAU_INLINE double digamma_(double x) {
  bool negative = x < 0;
  double y = negative ? 1 - x : x, from = y < 9 ? y : 1.;
  double p = 1, q = from;  // p / q = sum of 1 / (from + k)
  for (int k = 1; k < 9; ++k) {
    double f = from + k;
    p = fma_(p, f, q);
    q *= f;
  }
  double Y = y < 9 ? y + 9 : y, z = 1 / (Y * Y);
  double tail = horner(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12);
  double value = log_(Y) - 0.5 / Y - z * tail - (y < 9 ? p / q : 0.);
  double r = x - rint_(x), t = fma_(8 * r, r, -1.);
  double cotangent = cospi_poly(t) / (r * sinpi_poly(t));
  value = negative ? value - kPi * cotangent : value;
  value = negative & (r == 0) ? nan<double> : value;
  return x == 0 ? copysign_(inf<double>, -x) : value;
}
