//! Rows as Parquet, for column-oriented tools; built with the feature `parquet`.

use super::Table;
use super::table::{Rows, rows};
use crate::tools::Failure;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use std::sync::Arc;
use tallygraph_profile::graph::CallGraph;

/// What a column holds; every column may be null.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Flag,
}

/// The kind of a column, by its first value that is not null.
fn kind(rows: &Rows, column: usize) -> Kind {
    match rows.rows.iter().map(|row| &row[column]).find(|value| !value.is_null()) {
        Some(Value::String(_)) => Kind::Text,
        Some(Value::Bool(_)) => Kind::Flag,
        _ => Kind::Number,
    }
}

/// The table as one row group.
pub fn document(graph: &CallGraph, table: Table) -> Result<Vec<u8>, Failure> {
    let rows = rows(graph, table);
    let kinds: Vec<Kind> = (0..rows.columns.len()).map(|c| kind(&rows, c)).collect();
    let mut fields = Vec::new();
    for (name, kind) in rows.columns.iter().zip(&kinds) {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Number => (Physical::INT64, None),
            Kind::Flag => (Physical::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()?;
        fields.push(Arc::new(field));
    }
    let schema = Arc::new(Type::group_type_builder("tallygraph").with_fields(fields).build()?);
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default())?;
    let mut group = writer.next_row_group()?;
    for (column, kind) in kinds.iter().enumerate() {
        let values: Vec<&Value> = rows.rows.iter().map(|row| &row[column]).collect();
        let levels: Vec<i16> = values.iter().map(|v| i16::from(!v.is_null())).collect();
        let Some(mut out) = group.next_column()? else { break };
        match kind {
            Kind::Text => {
                let texts: Vec<ByteArray> =
                    values.iter().filter_map(|v| v.as_str()).map(ByteArray::from).collect();
                out.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None)?;
            }
            Kind::Number => {
                let numbers: Vec<i64> = values.iter().filter_map(|v| v.as_i64()).collect();
                out.typed::<Int64Type>().write_batch(&numbers, Some(&levels), None)?;
            }
            Kind::Flag => {
                let flags: Vec<bool> = values.iter().filter_map(|v| v.as_bool()).collect();
                out.typed::<BoolType>().write_batch(&flags, Some(&levels), None)?;
            }
        }
        out.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}
