//! The names of codes and attributes.

use std::ffi::{CString, c_char};

use pmix_dstore::model::{App, DataType, InfoFlags, Proc, Rank, Status, Value};

use super::c_text;
use crate::convert::object::Object;
use crate::convert::text;
use crate::entry::entry;
use crate::memory::copy_text;
use crate::types::*;
use crate::{attributes, strings};

entry! {
    /// `PMIx_Error_string`.
    fn PMIx_Error_string(status: pmix_status_t) -> *const c_char {
        c_text(strings::error(status))
    }

    /// `PMIx_Proc_state_string`.
    fn PMIx_Proc_state_string(state: pmix_proc_state_t) -> *const c_char {
        c_text(strings::proc_state(state))
    }

    /// `PMIx_Scope_string`.
    fn PMIx_Scope_string(scope: pmix_scope_t) -> *const c_char {
        c_text(strings::scope(scope))
    }

    /// `PMIx_Persistence_string`.
    fn PMIx_Persistence_string(persist: pmix_persistence_t) -> *const c_char {
        c_text(strings::persistence(persist))
    }

    /// `PMIx_Data_range_string`.
    fn PMIx_Data_range_string(range: pmix_data_range_t) -> *const c_char {
        c_text(strings::data_range(range))
    }

    /// `PMIx_Data_type_string`.
    fn PMIx_Data_type_string(type_: pmix_data_type_t) -> *const c_char {
        c_text(strings::data_type(type_))
    }

    /// `PMIx_Alloc_directive_string`.
    fn PMIx_Alloc_directive_string(directive: pmix_alloc_directive_t) -> *const c_char {
        c_text(strings::alloc_directive(directive))
    }

    /// `PMIx_IOF_channel_string`. Unlike the stock library's, the text stays as it is when another one is asked for.
    fn PMIx_IOF_channel_string(channel: pmix_iof_channel_t) -> *const c_char {
        c_text(strings::iof_channel(channel))
    }

    /// `PMIx_Job_state_string`.
    fn PMIx_Job_state_string(state: pmix_job_state_t) -> *const c_char {
        c_text(strings::job_state(state))
    }

    /// `PMIx_Link_state_string`.
    fn PMIx_Link_state_string(state: pmix_link_state_t) -> *const c_char {
        c_text(strings::link_state(state))
    }

    /// `PMIx_Device_type_string`.
    fn PMIx_Device_type_string(type_: pmix_device_type_t) -> *const c_char {
        c_text(strings::device_type(type_))
    }

    /// `PMIx_Value_comparison_string`.
    fn PMIx_Value_comparison_string(cmp: pmix_value_cmp_t) -> *const c_char {
        c_text(strings::value_comparison(cmp))
    }

    /// `PMIx_Alloc_inheritance_string`.
    fn PMIx_Alloc_inheritance_string(inheritance: pmix_alloc_inheritance_t) -> *const c_char {
        c_text(strings::alloc_inheritance(inheritance))
    }

    /// `PMIx_Resource_block_directive_string`.
    fn PMIx_Resource_block_directive_string(directive: pmix_resource_block_directive_t) -> *const c_char {
        c_text(strings::resource_block_directive(directive))
    }

    /// `PMIx_Group_operation_string`.
    fn PMIx_Group_operation_string(op: pmix_group_operation_t) -> *const c_char {
        c_text(strings::group_operation(op))
    }

    /// `PMIx_Error_code`: the status with a name, in letters of either case; the least number there is for no name.
    fn PMIx_Error_code(errname: *const c_char) -> pmix_status_t {
        let name = text::string(errname).and_then(|name| name.to_str().ok());
        name.and_then(Status::from_name).map_or(i32::MIN, |status| status.0)
    }

    /// `PMIx_Proc_string`: a process by namespace and rank, which the caller frees.
    fn PMIx_Proc_string(proc: *const pmix_proc_t) -> *mut c_char {
        if proc.is_null() {
            return heap_text("[NO-NAME]".into());
        }
        match pmix_proc_t::read(proc) {
            Ok(Proc { nspace, rank }) => heap_text(format!("[{nspace},{}]", rank_text(rank))),
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// `PMIx_Resource_unit_string`: how many of what, which the caller frees.
    fn PMIx_Resource_unit_string(unit: *const pmix_resource_unit_t) -> *mut c_char {
        if unit.is_null() {
            return std::ptr::null_mut();
        }
        let name = strings::device_type((*unit).type_).to_string_lossy();
        heap_text(format!("TYPE: {name}  COUNT: {}", (*unit).count))
    }

    /// `PMIx_App_string`: an application on several lines, which the caller frees.
    fn PMIx_App_string(app: *const pmix_app_t) -> *mut c_char {
        if app.is_null() {
            return std::ptr::null_mut();
        }
        pmix_app_t::read(app).map_or(std::ptr::null_mut(), |read| heap_text(app_text(&read, app)))
    }

    /// `PMIx_Get_attribute_string`: the key of an attribute's name; an unknown name comes back as it is.
    fn PMIx_Get_attribute_string(attribute: *const c_char) -> *const c_char {
        let known = text::string(attribute).and_then(attributes::key_of);
        known.map_or(attribute, c_text)
    }

    /// `PMIx_Get_attribute_name`: the name of the attribute with a key; an unknown key comes back as it is.
    fn PMIx_Get_attribute_name(attrstring: *const c_char) -> *const c_char {
        let known = text::string(attrstring).and_then(attributes::name_of);
        known.map_or(attrstring, c_text)
    }

    /// `PMIx_Info_directives_string`, which the caller frees.
    fn PMIx_Info_directives_string(directives: pmix_info_directives_t) -> *mut c_char {
        heap_text(directives_text(directives))
    }

    /// `PMIx_Value_string`: type and value, which the caller frees.
    fn PMIx_Value_string(value: *const pmix_value_t) -> *mut c_char {
        if value.is_null() { std::ptr::null_mut() } else { heap_text(value_text(value)) }
    }

    /// `PMIx_Info_string`: key, directives and value, which the caller frees.
    fn PMIx_Info_string(info: *const pmix_info_t) -> *mut c_char {
        if info.is_null() { std::ptr::null_mut() } else { heap_text(info_text(info)) }
    }
}

/// A text in memory that C code frees; NULL where there is none left.
fn heap_text(text: String) -> *mut c_char {
    copy_text(text.replace('\0', "").as_bytes()).unwrap_or(std::ptr::null_mut())
}

/// A rank with the names of those that have a meaning of their own.
fn rank_text(rank: Rank) -> String {
    match rank {
        Rank::UNDEF => "UNDEF".into(),
        Rank::WILDCARD => "WILDCARD".into(),
        Rank::LOCAL_NODE => "LOCAL_NODE".into(),
        Rank::LOCAL_PEERS => "LOCAL_PEERS".into(),
        Rank::INVALID => "INVALID".into(),
        Rank(rank) => rank.to_string(),
    }
}

/// An application, a line for each of its parts.
///
/// # Safety
/// `at` is where `app` was read.
unsafe fn app_text(app: &App, at: *const pmix_app_t) -> String {
    let or_null =
        |text: &Option<CString>| text.as_ref().map_or("NULL".into(), |text| text.to_string_lossy().into_owned());
    let mut lines = vec![format!("CMD: {}", or_null(&app.cmd))];
    for (name, strings) in [("ARGV", &app.argv), ("ENV", &app.env)] {
        lines.push(format!("    {name}:"));
        if strings.is_empty() {
            lines.push("        NONE".into());
        }
        let numbered = strings.iter().enumerate();
        lines.extend(numbered.map(|(n, text)| format!("        {name}[{n}]: {}", text.to_string_lossy())));
    }
    lines.push(format!("    CWD: {}", or_null(&app.cwd)));
    lines.push(format!("    MAXPROCS: {}", app.maxprocs));
    if app.infos.is_empty() {
        lines.push("    INFO: NONE".into());
    } else {
        lines.push("    INFO:".into());
        for index in 0..app.infos.len() {
            // SAFETY: the caller's promise: there are as many infos as were read.
            let info = unsafe { info_text((*at).info.add(index)) };
            lines.push(format!("        INFO[{index}]: {info}"));
        }
    }
    lines.join("\n")
}

/// An info: key, directives and value.
///
/// # Safety
/// `info` points to an initialised info.
unsafe fn info_text(info: *const pmix_info_t) -> String {
    // SAFETY: the caller's promise.
    unsafe {
        let key = text::key_text((&raw const (*info).key).cast()).unwrap_or_default();
        format!(
            " KEY: {}\n \t Data type: PMIX_INFO_DIRECTIVES\tValue: {}\n \t{}",
            String::from_utf8_lossy(key),
            directives_text((*info).flags),
            value_text(&raw const (*info).value)
        )
    }
}

fn directives_text(flags: u32) -> String {
    if flags & InfoFlags::QUALIFIER != 0 {
        return "QUALIFIER".into();
    }
    let mut text = String::from(if flags & InfoFlags::REQUIRED != 0 { "REQUIRED" } else { "OPTIONAL" });
    if flags & InfoFlags::REQUIRED_PROCESSED != 0 {
        text.push_str(":PROCESSED");
    }
    if flags & InfoFlags::ARRAY_END != 0 {
        text.push_str(":END");
    }
    if flags & InfoFlags::PERSISTENT != 0 {
        text.push_str(":PERSISTENT");
    }
    text
}

/// A value with its type, as the stock library prints it.
///
/// # Safety
/// `value` points to an initialised value.
unsafe fn value_text(value: *const pmix_value_t) -> String {
    // SAFETY: the caller's promise.
    let (ty, value) = unsafe { (DataType((*value).type_), pmix_value_t::read(value)) };
    let shown = value.map_or_else(|status| status.to_string(), |value| shown(&value));
    format!(" PMIX_VALUE:  Data type: {}\tValue: {shown}", strings::data_type(ty.0).to_string_lossy())
}

/// A value as a text: numbers and strings as the stock library prints them, structures in a form of our own.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Bool(flag) => (if *flag { "TRUE" } else { "FALSE" }).to_owned(),
        Value::String(Some(text)) => text.to_string_lossy().into_owned(),
        Value::String(None) => "NULL".to_owned(),
        Value::Status(status) => strings::error(status.0).to_string_lossy().into_owned(),
        Value::Float(number) => format!("{number:.6}"),
        Value::Double(number) => format!("{number:.6}"),
        Value::ByteObject(bytes) => format!("SIZE: {}", bytes.len()),
        Value::Int(n) | Value::Int32(n) | Value::Pid(n) => n.to_string(),
        Value::Int8(n) => n.to_string(),
        Value::Int16(n) => n.to_string(),
        Value::Int64(n) | Value::Time(n) => n.to_string(),
        value => value.as_u64().map_or_else(|| format!("{value:?}"), |number| number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_codes_and_names() {
        // SAFETY: C strings.
        let code = |name: &std::ffi::CStr| unsafe { PMIx_Error_code(name.as_ptr()) };
        assert_eq!(code(c"PMIX_ERR_NOT_FOUND"), -46);
        assert_eq!(code(c"pmix_err_exists"), -11);
        assert_eq!(code(c"PMIX_EXISTS"), -11);
        assert_eq!(code(c"NOT-FOUND"), i32::MIN);
        for status in (-200..=0).map(Status) {
            let text = strings::error(status.0);
            if let Some(name) = status.name() {
                assert_eq!(text.to_str(), Ok(name));
            }
        }
    }

    #[test]
    fn directives_read_as_in_the_stock_library() {
        assert_eq!(directives_text(0), "OPTIONAL");
        assert_eq!(directives_text(7), "REQUIRED:PROCESSED:END");
        assert_eq!(directives_text(9), "QUALIFIER");
        assert_eq!(directives_text(17), "REQUIRED:PERSISTENT");
    }
}
