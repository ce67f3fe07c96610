//! Laws from text and back.

use core::fmt;
use core::str::FromStr;

use super::Law;
use crate::limits::LAW_TEXT_LEN_MAX;

/// What is wrong with the text of a law.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "law `{text}`: {fault}; accepted are N, fixed:N, uniform:max, uniform:min,max, normal:mean,sd, \
     exponential:lambda, pareto:loc,scale,shape, gev:loc,scale,shape, fb_key, fb_value, fb_ia"
)]
pub struct LawError {
    /// The text, cut where it is long.
    pub text: String,
    /// What is wrong with it.
    pub fault: String,
}

impl FromStr for Law {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let text = text.trim();
        let error = |fault: String| LawError {
            text: text.chars().take(LAW_TEXT_LEN_MAX).collect(),
            fault,
        };
        if text.len() > LAW_TEXT_LEN_MAX {
            return Err(error(format!("longer than {LAW_TEXT_LEN_MAX} bytes")));
        }
        parse(text).map_err(error)
    }
}

fn parse(text: &str) -> Result<Law, String> {
    if let Ok(value) = text.parse::<f64>() {
        return checked(Law::Fixed(finite(text, value)?));
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
    let law = match (name.as_str(), numbers.as_slice()) {
        ("fixed", &[value]) => Law::Fixed(value),
        ("uniform", &[max]) => Law::Uniform { min: 0.0, max },
        ("uniform", &[min, max]) => Law::Uniform { min, max },
        ("normal", &[mean, deviation]) => Law::Normal { mean, deviation },
        ("exponential", &[lambda]) => Law::Exponential { lambda },
        ("pareto", &[location, scale, shape]) => Law::Pareto {
            location,
            scale,
            shape,
        },
        ("gev", &[location, scale, shape]) => Law::Gev {
            location,
            scale,
            shape,
        },
        ("fb_key", &[]) => Law::FacebookKey,
        ("fb_value", &[]) => Law::FacebookValue,
        ("fb_ia", &[]) => Law::FacebookArrival,
        (known, _) => return Err(arity_fault(known, numbers.len())),
    };
    checked(law)
}

fn arity_fault(name: &str, given: usize) -> String {
    let wanted = match name {
        "fixed" | "exponential" => "one number",
        "uniform" => "one or two numbers",
        "normal" => "two numbers",
        "pareto" | "gev" => "three numbers",
        "fb_key" | "fb_value" | "fb_ia" => "no numbers",
        _ => return "no such law".to_owned(),
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

fn checked(law: Law) -> Result<Law, String> {
    let fault = match law {
        Law::Uniform { min, max } if max < min => format!("maximum {max} is below minimum {min}"),
        Law::Normal { deviation, .. } if deviation < 0.0 => {
            format!("standard deviation {deviation} is negative")
        }
        Law::Exponential { lambda } if lambda <= 0.0 => format!("lambda {lambda} is not positive"),
        Law::Pareto { scale, .. } | Law::Gev { scale, .. } if scale <= 0.0 => {
            format!("scale {scale} is not positive")
        }
        sound => return Ok(sound),
    };
    Err(fault)
}

impl fmt::Display for Law {
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
            // Three hundred digits of a number without a use for them would not parse again.
            if *number == 0.0 || (1e-5..1e16).contains(&number.abs()) {
                write!(out, "{number}")?;
            } else {
                write!(out, "{number:e}")?;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Law {
    type Error = LawError;

    fn try_from(text: String) -> Result<Self, LawError> {
        text.parse()
    }
}

impl From<Law> for String {
    fn from(law: Law) -> Self {
        law.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_mutilate_parses() {
        let parsed = |text: &str| text.parse::<Law>().unwrap();
        assert_eq!(parsed("30"), Law::Fixed(30.0));
        assert_eq!(parsed("fixed:30"), Law::Fixed(30.0));
        assert_eq!(parsed("uniform:9"), Law::Uniform { min: 0.0, max: 9.0 });
        assert_eq!(parsed("uniform:2,9"), Law::Uniform { min: 2.0, max: 9.0 });
        assert_eq!(
            parsed("normal:3, 0.5"),
            Law::Normal {
                mean: 3.0,
                deviation: 0.5
            }
        );
        assert_eq!(parsed("EXPONENTIAL:2"), Law::Exponential { lambda: 2.0 });
        let pareto = Law::Pareto {
            location: 0.0,
            scale: 16.0292,
            shape: 0.154971,
        };
        assert_eq!(parsed("pareto:0,16.0292,0.154971"), pareto);
        let gev = Law::Gev {
            location: 30.0,
            scale: 8.0,
            shape: -0.1,
        };
        assert_eq!(parsed("gev:30,8,-0.1"), gev);
        assert_eq!(parsed("fb_key"), Law::FacebookKey);
        assert_eq!(parsed(" fb_value "), Law::FacebookValue);
        assert_eq!(parsed("fb_ia"), Law::FacebookArrival);
    }

    #[test]
    fn laws_print_as_they_are_written_even_the_vast() {
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
            assert_eq!(text.parse::<Law>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_error_names_the_text_the_fault_and_the_forms() {
        let message = |text: &str| text.parse::<Law>().unwrap_err().to_string();
        let cases = [
            ("zeta:1", "no such law"),
            ("", "no such law"),
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
                message.starts_with(&format!("law `{text}`: {fault}; accepted")),
                "{message}"
            );
            assert!(
                message.contains("uniform:min,max") && message.ends_with("fb_ia"),
                "{message}"
            );
        }
        let long = "9".repeat(400).parse::<Law>().unwrap_err();
        assert_eq!(long.text.len(), LAW_TEXT_LEN_MAX);
    }
}
