//! Parsing and printing of distributions.

use core::fmt;
use core::str::FromStr;

use super::Distribution;
use crate::limits::DISTRIBUTION_TEXT_LEN_MAX;

/// Text that is no valid distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "distribution `{text}`: {fault}; accepted are N, fixed:N, uniform:max, uniform:min,max, normal:mean,sd, \
     exponential:lambda, pareto:loc,scale,shape, gev:loc,scale,shape, fb_key, fb_value, fb_ia"
)]
pub struct DistributionError {
    /// The text, cut where it is long.
    pub text: String,
    /// What is wrong with it.
    pub fault: String,
}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Self, DistributionError> {
        let text = text.trim();
        let error = |fault: String| DistributionError {
            text: text.chars().take(DISTRIBUTION_TEXT_LEN_MAX).collect(),
            fault,
        };
        if text.len() > DISTRIBUTION_TEXT_LEN_MAX {
            return Err(error(format!(
                "longer than {DISTRIBUTION_TEXT_LEN_MAX} bytes"
            )));
        }
        parse(text).map_err(error)
    }
}

fn parse(text: &str) -> Result<Distribution, String> {
    if let Ok(value) = text.parse::<f64>() {
        return checked(Distribution::Fixed(finite(text, value)?));
    }
    let (name, arguments) = match text.split_once(':') {
        Some((name, arguments)) => (name, Some(arguments)),
        None => (text, None),
    };
    let name = name.trim().to_ascii_lowercase();
    let numbers = match arguments {
        Some(arguments) => arguments
            .split(',')
            .map(number)
            .collect::<Result<Vec<f64>, _>>()?,
        None => Vec::new(),
    };
    let distribution = match (name.as_str(), numbers.as_slice()) {
        ("fixed", &[value]) => Distribution::Fixed(value),
        ("uniform", &[max]) => Distribution::Uniform { min: 0.0, max },
        ("uniform", &[min, max]) => Distribution::Uniform { min, max },
        ("normal", &[mean, deviation]) => Distribution::Normal { mean, deviation },
        ("exponential", &[lambda]) => Distribution::Exponential { lambda },
        ("pareto", &[location, scale, shape]) => Distribution::Pareto {
            location,
            scale,
            shape,
        },
        ("gev", &[location, scale, shape]) => Distribution::Gev {
            location,
            scale,
            shape,
        },
        ("fb_key", &[]) => Distribution::FacebookKey,
        ("fb_value", &[]) => Distribution::FacebookValue,
        ("fb_ia", &[]) => Distribution::FacebookArrival,
        (known, _) => return Err(arity_fault(known, numbers.len())),
    };
    checked(distribution)
}

fn arity_fault(name: &str, given: usize) -> String {
    let wanted = match name {
        "fixed" | "exponential" => "one number",
        "uniform" => "one or two numbers",
        "normal" => "two numbers",
        "pareto" | "gev" => "three numbers",
        "fb_key" | "fb_value" | "fb_ia" => "no numbers",
        _ => return "no such distribution".to_owned(),
    };
    format!("{name} takes {wanted}, not {given}")
}

fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let value = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number"))?;
    finite(text, value)
}

fn finite(text: &str, value: f64) -> Result<f64, String> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(format!("`{text}` is not a finite number"))
    }
}

fn checked(distribution: Distribution) -> Result<Distribution, String> {
    let fault = match distribution {
        Distribution::Uniform { min, max } if max < min => {
            format!("maximum {max} is below minimum {min}")
        }
        Distribution::Normal { deviation, .. } if deviation < 0.0 => {
            format!("standard deviation {deviation} is negative")
        }
        Distribution::Exponential { lambda } if lambda <= 0.0 => {
            format!("lambda {lambda} is not positive")
        }
        Distribution::Pareto { scale, .. } | Distribution::Gev { scale, .. } if scale <= 0.0 => {
            format!("scale {scale} is not positive")
        }
        sound => return Ok(sound),
    };
    Err(fault)
}

impl fmt::Display for Distribution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, numbers): (&str, &[f64]) = match self {
            Self::Fixed(value) => ("fixed", &[*value]),
            Self::Uniform { min, max } if *min == 0.0 => ("uniform", &[*max]),
            Self::Uniform { min, max } => ("uniform", &[*min, *max]),
            Self::Normal { mean, deviation } => ("normal", &[*mean, *deviation]),
            Self::Exponential { lambda } => ("exponential", &[*lambda]),
            Self::Pareto {
                location,
                scale,
                shape,
            } => ("pareto", &[*location, *scale, *shape]),
            Self::Gev {
                location,
                scale,
                shape,
            } => ("gev", &[*location, *scale, *shape]),
            Self::FacebookKey => ("fb_key", &[]),
            Self::FacebookValue => ("fb_value", &[]),
            Self::FacebookArrival => ("fb_ia", &[]),
        };
        out.write_str(name)?;
        for (i, number) in numbers.iter().enumerate() {
            out.write_str(if i == 0 { ":" } else { "," })?;
            // Plain notation of a very large or small number has up to 300 digits, beyond the bound
            // on the text: it would not parse again.
            if *number == 0.0 || (1e-5..1e16).contains(&number.abs()) {
                write!(out, "{number}")?;
            } else {
                write!(out, "{number:e}")?;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Distribution {
    type Error = DistributionError;

    fn try_from(text: String) -> Result<Self, DistributionError> {
        text.parse()
    }
}

impl From<Distribution> for String {
    fn from(distribution: Distribution) -> Self {
        distribution.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_mutilate_parses() {
        let parsed = |text: &str| text.parse::<Distribution>().unwrap();
        assert_eq!(parsed("30"), Distribution::Fixed(30.0));
        assert_eq!(parsed("fixed:30"), Distribution::Fixed(30.0));
        assert_eq!(
            parsed("uniform:9"),
            Distribution::Uniform { min: 0.0, max: 9.0 }
        );
        assert_eq!(
            parsed("uniform:2,9"),
            Distribution::Uniform { min: 2.0, max: 9.0 }
        );
        assert_eq!(
            parsed("normal:3, 0.5"),
            Distribution::Normal {
                mean: 3.0,
                deviation: 0.5
            }
        );
        assert_eq!(
            parsed("EXPONENTIAL:2"),
            Distribution::Exponential { lambda: 2.0 }
        );
        let pareto = Distribution::Pareto {
            location: 0.0,
            scale: 16.0292,
            shape: 0.154971,
        };
        assert_eq!(parsed("pareto:0,16.0292,0.154971"), pareto);
        let gev = Distribution::Gev {
            location: 30.0,
            scale: 8.0,
            shape: -0.1,
        };
        assert_eq!(parsed("gev:30,8,-0.1"), gev);
        assert_eq!(parsed("fb_key"), Distribution::FacebookKey);
        assert_eq!(parsed(" fb_value "), Distribution::FacebookValue);
        assert_eq!(parsed("fb_ia"), Distribution::FacebookArrival);
    }

    #[test]
    fn distributions_print_as_they_parse() {
        let texts = [
            "fixed:30",
            "uniform:0.5",
            "uniform:-1,9",
            "exponential:1e-300",
            "pareto:0,16.0292,0.154971",
            "gev:1e300,1e-200,-1.7976931348623157e308",
            "fb_ia",
        ];
        for text in texts {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_error_names_the_text_the_fault_and_the_forms() {
        let message = |text: &str| text.parse::<Distribution>().unwrap_err().to_string();
        let cases = [
            ("zeta:1", "no such distribution"),
            ("", "no such distribution"),
            ("pareto:1,2", "pareto takes three numbers, not 2"),
            ("fb_key:1", "fb_key takes no numbers, not 1"),
            ("fixed:", "`` is not a number"),
            ("fixed:x", "`x` is not a number"),
            ("inf", "`inf` is not a finite number"),
            ("uniform:9,3", "maximum 3 is below minimum 9"),
            ("normal:1,-1", "standard deviation -1 is negative"),
            ("exponential:0", "lambda 0 is not positive"),
            ("gev:1,0,1", "scale 0 is not positive"),
        ];
        for (text, fault) in cases {
            let message = message(text);
            assert!(
                message.starts_with(&format!("distribution `{text}`: {fault}; accepted")),
                "{message}"
            );
            assert!(
                message.contains("uniform:min,max") && message.ends_with("fb_ia"),
                "{message}"
            );
        }
        let long = "9".repeat(400).parse::<Distribution>().unwrap_err();
        assert_eq!(long.text.len(), DISTRIBUTION_TEXT_LEN_MAX);
    }
}
