// The error function. Of float it is one polynomial, whose coefficients a vector looks up in tables that lie in
// registers: for each of 32 parts of [0, 4) or, where a register holds 8 numbers, of 8. Elsewhere every number goes
// through two.
#include "loops.h"
#if FLAMBEAU_LEVEL == 1 || defined(__AVX2__)
#include <immintrin.h>

#include <cstring>
#endif

namespace flambeau::FLAMBEAU_SIMD {

#if FLAMBEAU_LEVEL == 1
// erf(a) / a near c: its value there and four coefficients of a - c. c lies near the middle of its eighth, at a place
// whose value is almost a float, so that nothing is lost but in the last addition.
alignas(64) static const float kErf[6][32] = {  // c, the value, the coefficients
    {0.0616531372f, 0.190216064f, 0.311164856f, 0.439323425f, 0.562202454f, 0.687576294f, 0.81375885f, 0.940330505f,
     1.06250763f, 1.18699646f, 1.31277466f, 1.43997955f, 1.56026459f, 1.68864441f, 1.8141861f, 1.93801117f,
     2.06252289f, 2.18640137f, 2.31428528f, 2.43521881f, 2.56328583f, 2.68592834f, 2.81095123f, 2.93688965f,
     3.06420135f, 3.18776703f, 3.31475067f, 3.44036865f, 3.56066895f, 3.68863678f, 3.80994415f, 3.93769836f},
    {1.1269511f, 1.11491656f, 1.09299517f, 1.05980206f, 1.01997018f, 0.973184109f, 0.921891451f, 0.868232071f,
     0.816051602f, 0.763930619f, 0.713468909f, 0.665491164f, 0.623390615f, 0.582161903f, 0.54553479f, 0.512830019f,
     0.483128756f, 0.456463367f, 0.431638867f, 0.410405278f, 0.390011549f, 0.372256547f, 0.355726451f, 0.340485126f,
     0.32634452f, 0.313697159f, 0.301680982f, 0.290666193f, 0.28084597f, 0.271102816f, 0.26247102f, 0.253955454f},
    {-0.0462730937f, -0.140023887f, -0.220934838f, -0.294722378f, -0.351071984f, -0.392522424f, -0.417778283f,
     -0.4276914f, -0.424613059f, -0.411254764f, -0.390086502f, -0.363622606f, -0.336154789f, -0.306157261f,
     -0.277563453f, -0.251004189f, -0.22646904f, -0.204442263f, -0.184209257f, -0.167297646f, -0.151536152f,
     -0.13828589f, -0.126401588f, -0.115864947f, -0.106471516f, -0.0983928815f, -0.0910059065f, -0.0844845548f,
     -0.0788735077f, -0.0734963715f, -0.068890892f, -0.0644933209f},
    {-0.37355867f, -0.352151275f, -0.314221799f, -0.259469151f, -0.198138416f, -0.132416427f, -0.0685276985f,
     -0.0112303533f, 0.0347357802f, 0.0706940517f, 0.0957732797f, 0.110637516f, 0.116546594f, 0.116132535f,
     0.111013211f, 0.103135429f, 0.0937707946f, 0.0840356946f, 0.0742705464f, 0.0657002404f, 0.0575368106f,
     0.0506547727f, 0.0445497967f, 0.0392490141f, 0.0346525609f, 0.0308222454f, 0.0274357051f, 0.0245486144f,
     0.0221478157f, 0.0199236684f, 0.0180813111f, 0.0163782071f},
    {0.0276629049f, 0.0821176469f, 0.12491852f, 0.157017216f, 0.17282778f, 0.173842832f, 0.161414653f, 0.138825804f,
     0.111276895f, 0.0812448636f, 0.0521987826f, 0.0265915003f, 0.00711472798f, -0.00820682291f, -0.0180758648f,
     -0.0236291476f, -0.0259831995f, -0.0260571856f, -0.0246323217f, -0.0225173738f, -0.0199502595f, -0.0174773652f,
     -0.0151185915f, -0.0129940556f, -0.0111297192f, -0.00958387367f, -0.00823912304f, -0.00711958017f,
     -0.00621390669f, -0.00539957033f, -0.00474568922f, -0.00415984867f},
    {0.111183301f, 0.0989295691f, 0.0767013133f, 0.0478805713f, 0.0169365052f, -0.0122286286f, -0.0357642993f,
     -0.0517467186f, -0.0595113859f, -0.0600243509f, -0.054694593f, -0.0457075499f, -0.0351385511f, -0.0245526191f,
     -0.0151747586f, -0.00770801259f, -0.00213137432f, 0.00157960423f, 0.00377189578f, 0.00483971182f, 0.00511960546f,
     0.00492263772f, 0.00448784046f, 0.00394731248f, 0.00338604301f, 0.00286824722f, 0.00243865047f, 0.00205773301f,
     0.00172585133f, 0.00146340416f, 0.00123959268f, 0.00105935766f}};

struct ErfTable {
  __m512 low[6], high[6];
  ErfTable() {
    for (int k = 0; k < 6; ++k) low[k] = _mm512_load_ps(kErf[k]), high[k] = _mm512_load_ps(kErf[k] + 16);
  }
  __m512 operator()(__m512 x) const {
    const __m512 a = _mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(3.9999f));  // from there on it rounds to 1
    const __m512i eighth = _mm512_cvttps_epi32(_mm512_mul_ps(a, _mm512_set1_ps(8)));
    auto of = [&](int k) { return _mm512_permutex2var_ps(low[k], eighth, high[k]); };
    const __m512 t = _mm512_sub_ps(a, of(0));
    __m512 p = _mm512_fmadd_ps(of(5), t, of(4));
    p = _mm512_fmadd_ps(p, t, of(3));
    p = _mm512_fmadd_ps(p, t, of(2));
    const __m512 value = _mm512_fmadd_ps(a, of(1), _mm512_mul_ps(_mm512_mul_ps(a, t), p));
    const __m512 signed_value = _mm512_or_ps(value, _mm512_and_ps(x, _mm512_set1_ps(-0.f)));
    return _mm512_mask_mov_ps(signed_value, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
  }
};
static void erf_floats(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  const ErfTable erf;
  float* to = reinterpret_cast<float*>(p[0]);
  const float* x = reinterpret_cast<const float*>(p[1]);
  for (; n >= 16; n -= 16, x += 16, to += 16) _mm512_storeu_ps(to, erf(_mm512_loadu_ps(x)));
  const __mmask16 rest = __mmask16((1u << n) - 1);
  if (n) _mm512_mask_storeu_ps(to, rest, erf(_mm512_maskz_loadu_ps(rest, x)));
}
#elif defined(__AVX2__)
// As above, with two coefficients more.
alignas(32) static const float kErf[8][8] = {  // c, the value, the coefficients
    {0.250082284f, 0.749883175f, 1.25009322f, 1.74976206f, 2.25053334f, 2.74953723f, 3.25009608f, 3.75000525f},
    {1.10529065f, 0.948255062f, 0.738282681f, 0.563881874f, 0.443690866f, 0.363660872f, 0.307681888f, 0.266666263f},
    {-0.18122068f, -0.407011688f, -0.401423544f, -0.292075694f, -0.193983182f, -0.132048801f, -0.0946595743f,
     -0.0711106658f},
    {-0.335325122f, -0.100276895f, 0.0846486315f, 0.114104159f, 0.079069145f, 0.0474380516f, 0.0290959906f,
     0.0189619381f},
    {0.104721285f, 0.169335872f, 0.0663200021f, -0.0136544574f, -0.0255017113f, -0.0162482038f, -0.00889216829f,
     -0.00505432254f},
    {0.0890029073f, -0.0248356648f, -0.0579752661f, -0.0196934994f, 0.00286238897f, 0.00472225528f, 0.00264797942f,
     0.00134412933f},
    {-0.0349811465f, -0.0372807719f, 0.00809345767f, 0.0148667051f, 0.00356258033f, -0.000673659379f,
     -0.000717085961f, -0.000355609314f},
    {-0.0179691594f, 0.0141697302f, 0.0100045605f, -0.00331883179f, -0.00281939912f, -0.000361735205f,
     0.000136248273f, 8.93947145e-05f}};

struct ErfTable {
  __m256 entries[8];
  ErfTable() {
    for (int k = 0; k < 8; ++k) entries[k] = _mm256_load_ps(kErf[k]);
  }
  __m256 operator()(__m256 x) const {
    const __m256 sign = _mm256_set1_ps(-0.f);
    const __m256 a = _mm256_min_ps(_mm256_set1_ps(3.9999f), _mm256_andnot_ps(sign, x));  // NaN stays
    const __m256i half = _mm256_cvttps_epi32(_mm256_add_ps(a, a));
    auto of = [&](int k) { return _mm256_permutevar8x32_ps(entries[k], half); };
    const __m256 t = _mm256_sub_ps(a, of(0));
    __m256 p = _mm256_fmadd_ps(of(7), t, of(6));
    for (int k = 5; k > 1; --k) p = _mm256_fmadd_ps(p, t, of(k));
    return _mm256_or_ps(_mm256_fmadd_ps(a, of(1), _mm256_mul_ps(a, _mm256_mul_ps(t, p))), _mm256_and_ps(x, sign));
  }
};
static void erf_floats(char* const* p, const int64_t*, int64_t n, const Scalar*) {
  const ErfTable erf;
  float* to = reinterpret_cast<float*>(p[0]);
  const float* x = reinterpret_cast<const float*>(p[1]);
  for (; n >= 8; n -= 8, x += 8, to += 8) _mm256_storeu_ps(to, erf(_mm256_loadu_ps(x)));
  float rest[8] = {};
  if (n == 0) return;
  std::memcpy(rest, x, size_t(n) * sizeof(float));
  _mm256_storeu_ps(rest, erf(_mm256_loadu_ps(rest)));
  std::memcpy(to, rest, size_t(n) * sizeof(float));
}
#else
constexpr LoopFn erf_floats = loop1<[](float a) { return erf_(a); }, 0, float>;
#endif

static const ElementwiseRows rows(FLAMBEAU_LEVEL, [](ElementwiseRows& r) {
  r.add({from_loops<float, double>("erf", 1, {erf_floats, loop1<[](double a) { return erf_(a); }, 0, double>}, 2)});
});

}  // namespace flambeau::FLAMBEAU_SIMD
