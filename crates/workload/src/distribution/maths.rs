//! The special functions of the distributions. They use `libm`, so that every machine agrees to the
//! last bit.

/// A shape nearer to 0 than this counts as 0.
const SHAPE_ZERO: f64 = 1e-9;

/// Euler's constant.
const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// (e^(shape·y) − 1) ÷ shape: the Box–Cox transform of e^y. It is y where the shape is 0.
pub(super) fn box_cox_exp(shape: f64, y: f64) -> f64 {
    if shape.abs() < SHAPE_ZERO {
        y
    } else {
        libm::expm1(shape * y) / shape
    }
}

/// The inverse of [`box_cox_exp`]: ln(1 + shape·z) ÷ shape. Beyond the end of a bounded
/// distribution it is infinite, on the side of that end.
pub(super) fn inverse_box_cox_exp(shape: f64, z: f64) -> f64 {
    if shape.abs() < SHAPE_ZERO {
        return z;
    }
    let inside = shape * z;
    if inside <= -1.0 {
        f64::NEG_INFINITY / shape
    } else {
        libm::log1p(inside) / shape
    }
}

/// The standard normal distribution function.
pub(super) fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / core::f64::consts::SQRT_2)
}

/// E[max(X, 0)] of a normal distribution.
pub(super) fn normal_positive_mean(mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return mean.max(0.0);
    }
    let z = mean / deviation;
    let density = libm::exp(-0.5 * z * z) / (2.0 * core::f64::consts::PI).sqrt();
    mean * normal_cdf(z) + deviation * density
}

/// Mean of the generalised extreme value distribution of location 0 and scale 1; the shape is below
/// 1.
pub(super) fn gev_unit_mean(shape: f64) -> f64 {
    if shape.abs() < 1e-6 {
        EULER_GAMMA
    } else {
        (libm::tgamma(1.0 - shape) - 1.0) / shape
    }
}

/// E[max(X, 0)] of a generalised extreme value distribution, shape below 1.
///
/// X = location + scale (t^−shape − 1) ÷ shape with t exponential of mean 1, positive while t is
/// below −ln cdf(0): an incomplete gamma function. A shape of 0 is approached, not met; the
/// relative error is then about 1e-6.
pub(super) fn gev_positive_mean(location: f64, scale: f64, shape: f64) -> f64 {
    let shape = if shape.abs() < 1e-6 { 1e-6 } else { shape };
    // inverse_box_cox_exp(shape, −location/scale) is −ln t at X = 0.
    let t_end = libm::exp(-inverse_box_cox_exp(shape, -location / scale));
    if t_end > 30.0 {
        return location + scale * gev_unit_mean(shape);
    }
    let weight = -libm::expm1(-t_end);
    (location - scale / shape) * weight + scale / shape * lower_gamma(1.0 - shape, t_end)
}

/// The lower incomplete gamma function γ(a, x), by its series (DLMF 8.7.1); good for x ≤ 30.
fn lower_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut term = 1.0 / a;
    let mut total = term;
    for n in 1..200 {
        term *= x / (a + f64::from(n));
        total += term;
        if term < total * 1e-17 {
            break;
        }
    }
    total * libm::exp(a * libm::log(x) - x)
}

/// The standard normal quantile, to about 1e-16: Wichura's PPND16 (algorithm AS 241, Applied
/// Statistics 37(3) 1988).
pub(super) fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(&CENTRE.0, r) / polynomial(&CENTRE.1, r);
    }
    let r = (-libm::log(if q < 0.0 { p } else { 1.0 - p })).sqrt();
    let z = if r <= 5.0 {
        polynomial(&FLANK.0, r - 1.6) / polynomial(&FLANK.1, r - 1.6)
    } else {
        polynomial(&TAIL.0, r - 5.0) / polynomial(&TAIL.1, r - 5.0)
    };
    if q < 0.0 { -z } else { z }
}

/// Coefficients in ascending powers.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

type Ratio = ([f64; 8], [f64; 8]);

const CENTRE: Ratio = (
    [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_854e3,
    ],
);

const FLANK: Ratio = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);

const TAIL: Ratio = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288e-7,
    ],
    [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantile_inverts_the_distribution_function() {
        for p in [
            1e-15, 1e-9, 1e-4, 0.01, 0.074, 0.076, 0.3, 0.5, 0.8, 0.95, 0.999_999,
        ] {
            let back = normal_cdf(normal_quantile(p));
            assert!((back / p - 1.0).abs() < 1e-12, "{p}: {back}");
        }
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-15);
    }

    #[test]
    fn lower_gamma_of_one_is_the_exponential_distribution() {
        for x in [0.01, 1.0, 7.5, 29.0] {
            assert!((lower_gamma(1.0, x) + libm::expm1(-x)).abs() < 1e-14);
        }
        // γ(1/2, x) = √π erf(√x), DLMF 8.4.1.
        let expected = core::f64::consts::PI.sqrt() * libm::erf(2.0_f64.sqrt());
        assert!((lower_gamma(0.5, 2.0) - expected).abs() < 1e-14);
    }

    #[test]
    fn box_cox_exp_and_its_inverse_agree_also_at_shape_zero() {
        for shape in [-0.5, -1e-10, 0.0, 1e-8, 0.3, 2.0] {
            for y in [0.0, 0.1, 1.0, 3.0] {
                assert!(
                    (inverse_box_cox_exp(shape, box_cox_exp(shape, y)) - y).abs() < 1e-9,
                    "{shape} {y}"
                );
            }
        }
        assert_eq!(inverse_box_cox_exp(0.5, -3.0), f64::NEG_INFINITY);
        assert_eq!(inverse_box_cox_exp(-0.5, 3.0), f64::INFINITY);
    }
}
