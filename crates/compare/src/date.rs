//! Days and times as text, without a time zone database: everything is UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Days from 1970-01-01 to the day a text like `2027-03-31` or `2027-03-31T10:00:00Z` begins with.
///
/// `None` if it does not begin with an existing day.
pub fn days_since_epoch(text: &str) -> Option<i64> {
    let day_text = text.get(..10)?;
    if text.len() > 10 && !text[10..].starts_with(['T', ' ']) {
        return None;
    }
    let mut parts = day_text.split('-');
    let mut number = |width: usize| {
        let part = parts.next()?;
        (part.len() == width && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse::<i64>().ok())?
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let days = civil_to_days(year, month, day);
    (days_to_civil(days) == (year, month, day)).then_some(days)
}

/// Whole days from one text to another; negative if the second is earlier.
pub fn days_between(earlier: &str, later: &str) -> Option<i64> {
    Some(days_since_epoch(later)? - days_since_epoch(earlier)?)
}

/// The time as `2027-03-31T10:00:00Z`.
pub fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    let (year, month, day) = days_to_civil(seconds.div_euclid(86_400));
    let rest = seconds.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Days since the epoch of a day in the Gregorian calendar, by counting years from March.
fn civil_to_days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn days_to_civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * month_from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_and_times_agree_with_known_ones() {
        assert_eq!(days_since_epoch("1970-01-01"), Some(0));
        assert_eq!(days_since_epoch("2000-03-01"), Some(11_017));
        assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(1_709_210_096)), "2024-02-29T12:34:56Z");
        assert_eq!(days_between("2024-02-28T10:00:00Z", "2024-03-01"), Some(2));
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        for text in ["2023-02-29", "2023-13-01", "soon", "2023-1-01", "2023-01-01x", ""] {
            assert_eq!(days_since_epoch(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_survives_the_round_trip() {
        for days in -800_000..800_000 {
            let (y, m, d) = days_to_civil(days);
            assert_eq!(civil_to_days(y, m, d), days);
        }
    }
}
