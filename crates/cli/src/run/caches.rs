//! The simulated caches: those of the options, else those of this machine.

use std::arch::x86_64::__cpuid_count;
use tallygraph_cachesim::Geometry;
use tallygraph_cachesim::cpuid::{Method, detect};
use tallygraph_wire::config::{Config, Number, Text};

/// Completes the configuration when caches are simulated. Gives lines for the log.
pub fn resolve(config: &mut Config) -> Vec<String> {
    if !config.is(Number::CacheSim) && !config.is(Number::SimVariant) {
        return Vec::new();
    }
    config.set(Number::CacheSim, 1);
    let given = [Text::CacheI1, Text::CacheD1, Text::CacheLl].map(|key| config.text(key).is_some());
    if given == [true; 3] {
        return Vec::new();
    }
    let found = detect(Method::Callgrind, |leaf, subleaf| {
        let r = __cpuid_count(leaf, subleaf);
        [r.eax, r.ebx, r.ecx, r.edx]
    });
    for (key, given, cache) in [
        (Text::CacheI1, given[0], found.i1),
        (Text::CacheD1, given[1], found.d1),
        (Text::CacheLl, given[2], found.ll),
    ] {
        if !given {
            config.push(key, value(&cache).as_bytes());
        }
    }
    found.notes().flat_map(|n| n.to_string().lines().map(str::to_string).collect::<Vec<_>>()).collect()
}

/// A cache as an option's value.
fn value(cache: &Geometry) -> String {
    format!("{},{},{}", cache.size(), cache.ways(), cache.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_simulation_nothing_is_asked() {
        let mut config = Config::new();
        assert!(resolve(&mut config).is_empty());
        assert_eq!(config, Config::new());
    }

    #[test]
    fn options_come_before_the_machine() {
        let mut config = Config::new();
        config.set(Number::SimVariant, 1);
        config.push(Text::CacheD1, b"1024,1,64");
        resolve(&mut config);
        assert!(config.is(Number::CacheSim));
        assert_eq!(config.texts(Text::CacheD1).collect::<Vec<_>>(), [b"1024,1,64"]);
        for key in [Text::CacheI1, Text::CacheLl] {
            let text = std::str::from_utf8(config.text(key).unwrap()).unwrap();
            assert!(Geometry::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn all_three_given_leave_the_machine_alone() {
        let mut config = Config::new();
        for key in [Text::CacheI1, Text::CacheD1, Text::CacheLl] {
            config.push(key, b"32768,8,64");
        }
        config.set(Number::CacheSim, 1);
        assert!(resolve(&mut config).is_empty());
        assert_eq!(config.texts(Text::CacheI1).count(), 1);
    }
}
