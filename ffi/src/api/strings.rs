//! The names of codes and attributes.

use std::ffi::c_char;
use std::ptr;

use pmix_dstore::model::{DataType, Proc, Status, Value};

use super::{c_text, optional_object};
use crate::convert::text;
use crate::entry::entry;
use crate::memory::copy_text;
use crate::types::*;
use crate::{attributes, print, strings};

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

    /// `PMIx_Error_code`: the status with a name, in letters of either case; `INT32_MIN` for an unknown name.
    fn PMIx_Error_code(errname: *const c_char) -> pmix_status_t {
        // SAFETY: `errname` is NULL or a C string.
        let name = unsafe { text::string(errname) }.and_then(|name| name.to_str().ok());
        name.and_then(Status::from_name).map_or(i32::MIN, |status| status.0)
    }

    /// `PMIx_Proc_string`: a process by namespace and rank, which the caller frees.
    fn PMIx_Proc_string(proc: *const pmix_proc_t) -> *mut c_char {
        // SAFETY: `proc` is NULL or an initialised process.
        match unsafe { optional_object(proc) } {
            Ok(None) => heap_text("[NO-NAME]"),
            Ok(Some(Proc { nspace, rank })) => {
                heap_text([b"[", nspace.as_bytes(), b",", print::rank(rank).as_bytes(), b"]"].concat())
            }
            Err(_) => ptr::null_mut(),
        }
    }

    /// `PMIx_Resource_unit_string`: type and count of a resource, which the caller frees.
    fn PMIx_Resource_unit_string(unit: *const pmix_resource_unit_t) -> *mut c_char {
        // SAFETY: `unit` is NULL or an initialised structure.
        let Some(unit) = (unsafe { unit.as_ref() }) else { return ptr::null_mut() };
        let name = strings::device_type(unit.type_).to_string_lossy();
        heap_text(format!("TYPE: {name}  COUNT: {}", unit.count))
    }

    /// `PMIx_App_string`: an application on several lines, which the caller frees.
    fn PMIx_App_string(app: *const pmix_app_t) -> *mut c_char {
        // SAFETY: `app` is NULL or an initialised application.
        match unsafe { optional_object(app) } {
            Ok(Some(app)) => heap_text(print::app(&app)),
            _ => ptr::null_mut(),
        }
    }

    /// `PMIx_Get_attribute_string`: the key of an attribute's name; an unknown name comes back as it is.
    fn PMIx_Get_attribute_string(attribute: *const c_char) -> *const c_char {
        // SAFETY: `attribute` is NULL or a C string.
        let known = unsafe { text::string(attribute) }.and_then(attributes::key_of);
        known.map_or(attribute, c_text)
    }

    /// `PMIx_Get_attribute_name`: the name of the attribute with a key; an unknown key comes back as it is.
    fn PMIx_Get_attribute_name(attrstring: *const c_char) -> *const c_char {
        // SAFETY: `attrstring` is NULL or a C string.
        let known = unsafe { text::string(attrstring) }.and_then(attributes::name_of);
        known.map_or(attrstring, c_text)
    }

    /// `PMIx_Info_directives_string`, which the caller frees.
    fn PMIx_Info_directives_string(directives: pmix_info_directives_t) -> *mut c_char {
        heap_text(print::directives(directives))
    }

    /// `PMIx_Value_string`: type and value, which the caller frees.
    fn PMIx_Value_string(value: *const pmix_value_t) -> *mut c_char {
        // SAFETY: `value` is NULL or an initialised value.
        match unsafe { optional_object(value) } {
            // SAFETY: there was an object, hence `value` is not NULL.
            Ok(Some(Value::Undef)) => heap_text(match DataType(unsafe { (*value).type_ }) {
                DataType::UNDEF => print::value(print::PREFIX, &Value::Undef),
                ty => print::absent_value(print::PREFIX, ty),
            }),
            Ok(Some(value)) => heap_text(print::value(print::PREFIX, &value)),
            _ => ptr::null_mut(),
        }
    }

    /// `PMIx_Info_string`: key, directives and value in whole lines, which the caller frees.
    fn PMIx_Info_string(info: *const pmix_info_t) -> *mut c_char {
        // SAFETY: `info` is NULL or an initialised info.
        match unsafe { optional_object(info) } {
            Ok(Some(info)) => heap_text([&print::info(print::PREFIX, &info)[..], b"\n"].concat()),
            _ => ptr::null_mut(),
        }
    }
}

/// A text in memory that C code frees; NULL without memory.
fn heap_text(text: impl AsRef<[u8]>) -> *mut c_char {
    // A NUL ends a text.
    let text = text.as_ref().split(|byte| *byte == 0).next().unwrap_or_default();
    copy_text(text).unwrap_or(ptr::null_mut())
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
}
