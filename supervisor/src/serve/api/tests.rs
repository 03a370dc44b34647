use std::collections::BTreeSet;

use serde_json::Value;

use crate::serve::problem::Code;
use crate::words::word;

fn document() -> Value {
    serde_json::from_str(include_str!("../openapi.json")).expect("JSON")
}

#[test]
fn every_route_is_in_the_document_and_no_other() {
    let routes: BTreeSet<String> = include_str!("../api.rs")
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".route(\"")?.split('"').next())
        .map(str::to_owned)
        .collect();
    let document = document();
    let paths = document["paths"].as_object().expect("paths");
    let documented: BTreeSet<String> = paths.keys().cloned().collect();
    assert_eq!(routes, documented);
    assert!(routes.len() > 10);
}

#[test]
fn the_codes_of_problems_are_those_of_the_document() {
    let document = document();
    let listed = &document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"];
    let listed: Vec<&str> = listed
        .as_array()
        .expect("codes")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let codes: Vec<String> = Code::ALL.iter().map(word).collect();
    assert_eq!(listed, codes);
}
