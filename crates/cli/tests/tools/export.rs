//! `export`: each format holds the same total.

use super::{file, out, run, scratch};
use serde_json::Value;
use std::fs;
use std::io::Read;

#[test]
fn folded_stacks_and_speedscope_hold_the_total() {
    let folded = out(&["export", "valid/plain.out", "-f", "folded", "--frame=object"]);
    assert!(folded.contains("(below main) [tiny];squares [tiny] 97"), "{folded}");
    let document: Value =
        serde_json::from_str(&out(&["export", "valid/plain.out", "-f", "speedscope"])).unwrap();
    let profile = &document["profiles"][0];
    let weights: Vec<i64> = serde_json::from_value(profile["weights"].clone()).unwrap();
    assert_eq!(weights.iter().sum::<i64>(), 586);
    assert_eq!(profile["endValue"], 586);
    let frames = document["shared"]["frames"].as_array().unwrap().len() as u64;
    let samples = profile["samples"].as_array().unwrap();
    assert_eq!(samples.len(), weights.len());
    assert!(samples.iter().all(|s| s.as_array().unwrap().iter().all(|f| f.as_u64().unwrap() < frames)));
    assert!(document["name"].as_str().unwrap().contains("estimated"));
}

#[test]
fn several_events_are_several_speedscope_profiles() {
    let path = "valid/instr_jumps_cache_branch.out";
    let document: Value =
        serde_json::from_str(&out(&["export", path, "-f", "speedscope", "--event=Dr"])).unwrap();
    let names: Vec<&str> =
        document["profiles"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "Dr", "the chosen event opens first");
    assert!(names.contains(&"Ir"));
}

#[test]
fn firefox_tables_fit_together() {
    let document: Value =
        serde_json::from_str(&out(&["export", "valid/plain.out", "-f", "firefox"])).unwrap();
    let thread = &document["threads"][0];
    let length = |table: &str| thread[table]["length"].as_u64().unwrap();
    for table in
        ["samples", "stackTable", "frameTable", "funcTable", "resourceTable", "markers", "nativeSymbols"]
    {
        for (name, column) in thread[table].as_object().unwrap() {
            if let Some(column) = column.as_array() {
                assert_eq!(column.len() as u64, length(table), "{table}.{name}");
            }
        }
    }
    let below = |table: &str, column: &str, limit: u64| {
        let column = thread[table][column].as_array().unwrap();
        assert!(column.iter().filter_map(Value::as_u64).all(|n| n < limit), "{table}");
    };
    below("samples", "stack", length("stackTable"));
    below("stackTable", "frame", length("frameTable"));
    below("frameTable", "func", length("funcTable"));
    below("funcTable", "name", thread["stringArray"].as_array().unwrap().len() as u64);
    below("funcTable", "resource", length("resourceTable"));
    let prefixes = thread["stackTable"]["prefix"].as_array().unwrap();
    assert!(prefixes.iter().enumerate().all(|(i, p)| p.as_u64().is_none_or(|p| p < i as u64)));
    let weights: Vec<i64> = serde_json::from_value(thread["samples"]["weight"].clone()).unwrap();
    assert_eq!(weights.iter().sum::<i64>(), 586);
}

/// Fields of a protocol buffer message: number and either a value or bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(message: &mut &[u8]) -> u64 {
        let (mut n, mut shift) = (0, 0);
        loop {
            let byte = message[0];
            *message = &message[1..];
            n |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return n;
            }
        }
    }
    let mut all = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = varint(&mut message);
        match key & 7 {
            0 => all.push((key >> 3, value, &[][..])),
            2 => {
                let (bytes, rest) = message.split_at(value as usize);
                all.push((key >> 3, 0, bytes));
                message = rest;
            }
            kind => panic!("field {} of kind {kind}", key >> 3),
        }
    }
    all
}

#[test]
fn pprof_samples_hold_the_total_and_name_their_functions() {
    let folder = scratch("pprof");
    let path = folder.join("p.pb.gz");
    out(&["export", "valid/plain.out", "-f", "pprof", "-o", path.to_str().unwrap()]);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(&path).unwrap()).read_to_end(&mut bytes).unwrap();
    let profile = fields(&bytes);
    let strings: Vec<&[u8]> = profile.iter().filter(|f| f.0 == 6).map(|f| f.2).collect();
    assert_eq!(strings[0], b"");
    assert!(
        strings.contains(&&b"squares"[..]) && strings.contains(&&b"stacks estimated from a call graph"[..])
    );
    // One value in each sample, as a packed list.
    let packed = |bytes: &[u8]| {
        let mut wrapped = vec![0];
        wrapped.extend_from_slice(bytes);
        fields(&wrapped)[0].1
    };
    let samples: Vec<u64> = profile
        .iter()
        .filter(|f| f.0 == 2)
        .map(|s| packed(fields(s.2).iter().find(|f| f.0 == 2).unwrap().2))
        .collect();
    assert_eq!(samples.iter().sum::<u64>(), 586);
}

#[test]
fn tables_are_csv_or_json_lines() {
    let csv = out(&["export", "valid/plain.out", "-f", "csv"]);
    let mut lines = csv.split("\r\n");
    assert_eq!(lines.next(), Some("name,file,object,calls,recursive,cycle,self_Ir,inclusive_Ir"));
    assert!(csv.contains("squares,/guests/tiny.c,/guests/tiny,1,false,,97,97\r\n"), "{csv}");
    let folder = scratch("csv");
    let quoted = file(&folder, "q.out", "events: Ir\nfn=f<a, \"b\">\n1 2\n");
    assert!(out(&["export", &quoted, "-f", "csv"]).contains("\"f<a, \"\"b\"\">\",???,???"));
    let sum = |table: &str, column: &str| -> i64 {
        let text = out(&["export", "valid/plain.out", "-f", "jsonl", "--table", table]);
        text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()[column].as_i64().unwrap()).sum()
    };
    assert_eq!(sum("functions", "self_Ir"), 586);
    assert_eq!(sum("lines", "self_Ir"), 586);
    // fib'2 40, even'2 3, odd'2 2, and four functions once.
    assert_eq!(sum("calls", "calls"), 49);
}

#[test]
fn callgrind_files_are_rewritten_for_their_consumers() {
    let same = out(&["export", "valid/instr_jumps_cache_branch.out", "-f", "callgrind"]);
    assert_eq!(
        same,
        fs::read_to_string(super::fixtures().join("valid/instr_jumps_cache_branch.out")).unwrap()
    );
    let folder = scratch("rewrite");
    let inlined = folder.join("plain.out");
    out(&[
        "export",
        "valid/fork_inline.out",
        "-f",
        "callgrind",
        "--strip-inline",
        "-o",
        inlined.to_str().unwrap(),
    ]);
    out(&["validate", inlined.to_str().unwrap(), "--for=gungraun", "--for=gprof2dot"]);
    let instr = folder.join("lines.out");
    let arguments =
        ["export", "valid/instr_jumps_cache_branch.out", "-f", "callgrind", "--no-instr", "--no-jumps"];
    out(&[&arguments[..], &["-o", instr.to_str().unwrap()]].concat());
    out(&["validate", instr.to_str().unwrap(), "--for=speedscope"]);
    let parts = folder.join("part.out");
    out(&[
        "export",
        "valid/combined_dumps.out",
        "-f",
        "callgrind",
        "--split-parts",
        "-o",
        parts.to_str().unwrap(),
    ]);
    let totals: Vec<Value> = [1, 2]
        .iter()
        .map(|n| {
            let part = format!("{}.{n}", parts.display());
            run(&["annotate", &part, "--format=json"]).with_status(0).json()["total"][0].clone()
        })
        .collect();
    assert_eq!(totals, [430, 156]);
    run(&["export", "valid/combined_dumps.out", "-f", "callgrind", "--split-parts"]).with_status(2);
}
