/* The functions of the interface that take pointers, and arguments for them. */
#ifndef PMIX_TEST_SHAPES_H
#define PMIX_TEST_SHAPES_H

#include "common.h"

/* The return value of a function, then its arguments. An upper-case letter is a required pointer:
 * a lower-case one may be NULL.
 *   answer:     s status, - anything else
 *   P p process(es)   K k key   S s text   I i infos   V value   O o out parameter   L list of infos   Y y byte object
 *   B data buffer   F callback (f: optional; without it the call blocks, or its end is not reported)   A a list of texts
 *   X x any other structure
 *   d data of a callback   n a count of 1   g a scope   t a data type (PMIX_UINT32)   0 a number
 * Infos that come with a count are needed (I), except where the stock library does not look at them (i). */
static const struct {
    const char *name, *shape;
} functions[] = {
    { "PMIx_Init", "s pIn" }, { "PMIx_Finalize", "s In" }, { "PMIx_Abort", "s 0spn" }, { "PMIx_Put", "s gKV" },
    { "PMIx_Fence", "s pnIn" }, { "PMIx_Fence_nb", "s pnInfd" }, { "PMIx_Get", "s pkinO" },
    { "PMIx_Get_nb", "s pkinFd" }, { "PMIx_Publish", "s In" }, { "PMIx_Publish_nb", "s Infd" },
    { "PMIx_Lookup", "s XnIn" }, { "PMIx_Lookup_nb", "s AInfd" }, { "PMIx_Unpublish", "s aIn" },
    { "PMIx_Unpublish_nb", "s aInfd" }, { "PMIx_Spawn", "s InXno" }, { "PMIx_Spawn_nb", "s InXnfd" },
    { "PMIx_Connect", "s pnIn" }, { "PMIx_Connect_nb", "s pnInfd" }, { "PMIx_Disconnect", "s pnIn" },
    { "PMIx_Disconnect_nb", "s pnInfd" }, { "PMIx_Resolve_peers", "s ssOO" }, { "PMIx_Resolve_nodes", "s sO" },
    { "PMIx_Query_info", "s XnOO" }, { "PMIx_Query_info_nb", "s Xnfd" }, { "PMIx_Log", "s InIn" },
    { "PMIx_Log_nb", "s InInfd" }, { "PMIx_Allocation_request", "s 0InOO" },
    { "PMIx_Allocation_request_nb", "s 0Infd" }, { "PMIx_Job_control", "s pnInoo" },
    { "PMIx_Job_control_nb", "s pnInfd" }, { "PMIx_Process_monitor", "s I0InOO" },
    { "PMIx_Process_monitor_nb", "s I0Infd" }, { "PMIx_Get_credential", "s InO" },
    { "PMIx_Get_credential_nb", "s InFd" }, { "PMIx_Validate_credential", "s YInOO" },
    { "PMIx_Validate_credential_nb", "s YInFd" }, { "PMIx_Group_construct", "s SPnInoo" },
    { "PMIx_Group_construct_nb", "s SPnInfd" }, { "PMIx_Group_invite", "s SPnInoo" },
    { "PMIx_Group_invite_nb", "s SPnInfd" }, { "PMIx_Group_join", "s Sp0inoo" },
    { "PMIx_Group_join_nb", "s Sp0infd" }, { "PMIx_Group_leave", "s SIn" }, { "PMIx_Group_leave_nb", "s SInfd" },
    { "PMIx_Group_destruct", "s SIn" }, { "PMIx_Group_destruct_nb", "s SInfd" },
    { "PMIx_Register_event_handler", "- xnInffd" }, { "PMIx_Deregister_event_handler", "s 0fd" },
    { "PMIx_Notify_event", "s 0p0Infd" }, { "PMIx_Fabric_register", "s XIn" }, { "PMIx_Fabric_register_nb", "s XInFd" },
    { "PMIx_Fabric_update", "s X" }, { "PMIx_Fabric_update_nb", "s XFd" }, { "PMIx_Fabric_deregister", "s X" },
    { "PMIx_Fabric_deregister_nb", "s Xfd" }, { "PMIx_Compute_distances", "s XXInOO" },
    { "PMIx_Compute_distances_nb", "s XXInFd" }, { "PMIx_Load_topology", "s X" }, { "PMIx_Topology_destruct", "- x" },
    { "PMIx_Parse_cpuset_string", "s SX" }, { "PMIx_Get_cpuset", "s X0" }, { "PMIx_Cpuset_destruct", "- x" },
    { "PMIx_Get_relative_locality", "s SSO" }, { "PMIx_Get_attribute_string", "- s" },
    { "PMIx_Get_attribute_name", "- s" }, { "PMIx_Info_string", "- i" }, { "PMIx_Value_string", "- x" },
    { "PMIx_Store_internal", "s PKV" }, { "PMIx_Data_pack", "s pBXnt" }, { "PMIx_Data_unpack", "s pBXXt" },
    { "PMIx_Data_copy", "s OXt" }, { "PMIx_Data_print", "s OsXt" }, { "PMIx_Data_copy_payload", "s BB" },
    { "PMIx_Data_unload", "s BY" }, { "PMIx_Data_load", "s By" }, { "PMIx_Data_embed", "s By" },
    { "PMIx_Data_compress", "- ynoo" }, { "PMIx_Data_decompress", "- ynoo" }, { "PMIx_Value_load", "s Vxt" },
    { "PMIx_Value_unload", "s VOO" }, { "PMIx_Value_destruct", "- x" }, { "PMIx_Value_xfer", "s VV" },
    { "PMIx_Value_compare", "- xx" }, { "PMIx_Data_array_destruct", "- x" }, { "PMIx_Info_load", "s IKxt" },
    { "PMIx_Info_xfer", "s II" }, { "PMIx_Info_list_add", "s LKxt" }, { "PMIx_Info_list_insert", "s LI" },
    { "PMIx_Info_list_xfer", "s LI" }, { "PMIx_Info_list_convert", "s LX" }, { "PMIx_Info_list_release", "- x" },
    { "PMIx_IOF_pull", "s PnIn0ffd" }, { "PMIx_IOF_deregister", "s 0Infd" }, { "PMIx_IOF_push", "s PnYInfd" },
    { "PMIx_server_init", "s xIn" }, { "PMIx_generate_regex", "s SO" }, { "PMIx_generate_ppn", "s SO" },
    { "PMIx_server_register_nspace", "s S0Infd" }, { "PMIx_server_deregister_nspace", "- sfd" },
    { "PMIx_server_register_client", "s P00xfd" }, { "PMIx_server_deregister_client", "- pfd" },
    { "PMIx_server_setup_fork", "s PO" }, { "PMIx_server_dmodex_request", "s PFd" },
    { "PMIx_server_setup_application", "s SInFd" }, { "PMIx_server_setup_local_support", "s SInfd" },
    { "PMIx_server_IOF_deliver", "s P0YInfd" }, { "PMIx_server_collect_inventory", "s InFd" },
    { "PMIx_server_deliver_inventory", "s InInfd" }, { "PMIx_Register_attributes", "s SA" },
    { "PMIx_server_generate_locality_string", "s XO" }, { "PMIx_server_generate_cpuset_string", "s XO" },
    { "PMIx_server_define_process_set", "s PnS" }, { "PMIx_server_delete_process_set", "s S" },
    { "PMIx_server_register_resources", "s Infd" }, { "PMIx_server_deregister_resources", "s Infd" },
    { "PMIx_tool_init", "s pIn" }, { "PMIx_tool_attach_to_server", "s ppIn" },
    { "PMIx_tool_connect_to_server", "s pIn" }, { "PMIx_tool_disconnect", "s P" },
    { "PMIx_tool_get_servers", "s OO" }, { "PMIx_tool_set_server", "s PIn" },    /* of later releases */
    { "PMIx_App_construct", "- x" }, { "PMIx_App_destruct", "- x" }, { "PMIx_App_free", "- xn" },
    { "PMIx_App_info_create", "- xn" }, { "PMIx_App_release", "- x" }, { "PMIx_App_string", "- x" },
    { "PMIx_Argv_append_nosize", "s XS" }, { "PMIx_Argv_append_unique_nosize", "s XS" }, { "PMIx_Argv_copy", "- a" },
    { "PMIx_Argv_count", "- a" }, { "PMIx_Argv_free", "- a" }, { "PMIx_Argv_join", "- a0" },
    { "PMIx_Argv_prepend_nosize", "s XS" }, { "PMIx_Argv_split", "- s0" }, { "PMIx_Argv_split_inter", "- s00" },
    { "PMIx_Argv_split_with_empty", "- s0" }, { "PMIx_Byte_object_construct", "- x" },
    { "PMIx_Byte_object_destruct", "- x" }, { "PMIx_Byte_object_free", "- xn" }, { "PMIx_Byte_object_load", "- xxn" },
    { "PMIx_Check_key", "- ss" }, { "PMIx_Check_nspace", "- ss" }, { "PMIx_Check_procid", "- pp" },
    { "PMIx_Check_nspace_strict", "- ss" }, { "PMIx_Check_procid_strict", "- pp" },
    { "PMIx_Check_reserved_key", "- s" }, { "PMIx_Coord_construct", "- x" }, { "PMIx_Coord_destruct", "- x" },
    { "PMIx_Coord_free", "- xn" }, { "PMIx_Cpuset_construct", "- x" }, { "PMIx_Cpuset_free", "- xn" },
    { "PMIx_Data_array_construct", "- xnt" }, { "PMIx_Data_array_free", "- x" }, { "PMIx_Data_array_init", "- xt" },
    { "PMIx_Data_buffer_construct", "- x" }, { "PMIx_Data_buffer_destruct", "- x" },
    { "PMIx_Data_buffer_load", "- xxn" }, { "PMIx_Data_buffer_release", "- x" },
    { "PMIx_Data_buffer_unload", "- xxx" }, { "PMIx_Device_construct", "- x" }, { "PMIx_Device_destruct", "- x" },
    { "PMIx_Device_distance_construct", "- x" }, { "PMIx_Device_distance_destruct", "- x" },
    { "PMIx_Device_distance_free", "- xn" }, { "PMIx_Device_free", "- xn" }, { "PMIx_Disk_stats_construct", "- x" },
    { "PMIx_Disk_stats_destruct", "- x" }, { "PMIx_Disk_stats_free", "- xn" }, { "PMIx_Endpoint_construct", "- x" },
    { "PMIx_Endpoint_destruct", "- x" }, { "PMIx_Endpoint_free", "- xn" }, { "PMIx_Envar_construct", "- x" },
    { "PMIx_Envar_destruct", "- x" }, { "PMIx_Envar_free", "- xn" }, { "PMIx_Envar_load", "- xxx0" },
    { "PMIx_Error_code", "- s" }, { "PMIx_Fabric_construct", "- x" }, { "PMIx_Geometry_construct", "- x" },
    { "PMIx_Geometry_destruct", "- x" }, { "PMIx_Geometry_free", "- xn" }, { "PMIx_Info_construct", "- i" },
    { "PMIx_Info_destruct", "- i" }, { "PMIx_Info_free", "- in" }, { "PMIx_Info_get_size", "s IO" },
    { "PMIx_Info_is_end", "- i" }, { "PMIx_Info_is_optional", "- i" }, { "PMIx_Info_is_persistent", "- i" },
    { "PMIx_Info_is_qualifier", "- i" }, { "PMIx_Info_is_required", "- i" },
    { "PMIx_Info_list_add_unique", "s LKxt0" }, { "PMIx_Info_list_add_value", "s LKV" },
    { "PMIx_Info_list_add_value_unique", "s LKV0" }, { "PMIx_Info_list_get_info", "- lxo" },
    { "PMIx_Info_list_get_size", "- l" }, { "PMIx_Info_list_prepend", "s LKxt" },
    { "PMIx_Info_list_xfer_unique", "s LI0" }, { "PMIx_Info_optional", "- i" }, { "PMIx_Info_persistent", "- i" },
    { "PMIx_Info_processed", "- i" }, { "PMIx_Info_qualifier", "- i" }, { "PMIx_Info_required", "- i" },
    { "PMIx_Info_set_end", "- i" }, { "PMIx_Info_true", "- i" }, { "PMIx_Info_was_processed", "- i" },
    { "PMIx_Load_key", "- xs" }, { "PMIx_Load_nspace", "- xs" }, { "PMIx_Load_procid", "- ps0" },
    { "PMIx_Multicluster_nspace_construct", "- xxx" }, { "PMIx_Multicluster_nspace_parse", "- xxx" },
    { "PMIx_Net_stats_construct", "- x" }, { "PMIx_Net_stats_destruct", "- x" }, { "PMIx_Net_stats_free", "- xn" },
    { "PMIx_Node_pid_construct", "- x" }, { "PMIx_Node_pid_destruct", "- x" }, { "PMIx_Node_pid_free", "- xn" },
    { "PMIx_Node_stats_construct", "- x" }, { "PMIx_Node_stats_destruct", "- x" }, { "PMIx_Node_stats_free", "- xn" },
    { "PMIx_Nspace_invalid", "- s" }, { "PMIx_Pdata_construct", "- x" }, { "PMIx_Pdata_destruct", "- x" },
    { "PMIx_Pdata_free", "- xn" }, { "PMIx_Pdata_load", "- xpsxt" }, { "PMIx_Pdata_xfer", "- xx" },
    { "PMIx_Proc_construct", "- p" }, { "PMIx_Proc_destruct", "- p" }, { "PMIx_Proc_free", "- pn" },
    { "PMIx_Proc_info_construct", "- x" }, { "PMIx_Proc_info_destruct", "- x" }, { "PMIx_Proc_info_free", "- xn" },
    { "PMIx_Proc_load", "- ps0" }, { "PMIx_Proc_stats_construct", "- x" }, { "PMIx_Proc_stats_destruct", "- x" },
    { "PMIx_Proc_stats_free", "- xn" }, { "PMIx_Proc_string", "- p" }, { "PMIx_Procid_invalid", "- p" },
    { "PMIx_Progress_thread_stop", "- in" }, { "PMIx_Query_construct", "- x" }, { "PMIx_Query_destruct", "- x" },
    { "PMIx_Query_free", "- xn" }, { "PMIx_Query_qualifiers_create", "- xn" }, { "PMIx_Query_release", "- x" },
    { "PMIx_Regattr_construct", "- x" }, { "PMIx_Regattr_destruct", "- x" }, { "PMIx_Regattr_free", "- xn" },
    { "PMIx_Regattr_load", "- xssts" }, { "PMIx_Regattr_xfer", "- xx" }, { "PMIx_Regex2_construct", "- x" },
    { "PMIx_Regex2_destruct", "- x" }, { "PMIx_Regex2_free", "- xn" }, { "PMIx_Resource_block", "s 0SXnin" },
    { "PMIx_Resource_block_nb", "s 0SXninfd" }, { "PMIx_Resource_unit_construct", "- x" },
    { "PMIx_Resource_unit_destruct", "- x" }, { "PMIx_Resource_unit_free", "- xn" },
    { "PMIx_Resource_unit_string", "- x" }, { "PMIx_Session_control", "s 0Infd" }, { "PMIx_Setenv", "s Ss0X" },
    { "PMIx_Topology_construct", "- x" }, { "PMIx_Topology_free", "- xn" }, { "PMIx_Value_construct", "- x" },
    { "PMIx_Value_free", "- xn" }, { "PMIx_Value_get_number", "s VXt" }, { "PMIx_Value_get_size", "s VO" },
    { "PMIx_Value_true", "- x" }, { "PMIx_Xfer_procid", "- pp" }, { "PMIx_generate_regex2", "s SinO" },
    { "PMIx_parse_regex2", "s XinO" }, { "PMIx_server_IOF_flow_control", "s P00infd" },
    { "PMIx_server_register_session", "s 0Infd" }, { "PMIx_server_deregister_session", "- 0fd" },
    { "PMIx_server_collect_job_info", "s PnB" }, { "PMIx_server_generate_cpuset", "s SX" },
    { "PMIx_tool_set_server_module", "s X" },    /* without pointers */
    { "PMIx_Commit", "s " }, { "PMIx_Heartbeat", "- " }, { "PMIx_Initialized", "s " }, { "PMIx_Progress", "- " },
    { "PMIx_server_finalize", "s " }, { "PMIx_tool_finalize", "s " }, { "PMIx_tool_is_connected", "- " },
};

typedef intptr_t (*any_function)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t,
                                 intptr_t);
#define ARGUMENT_COUNT_MAX 9

/* How often a callback has come. */
static int callback_count;

static inline void called_back(void) { __atomic_fetch_add(&callback_count, 1, __ATOMIC_RELAXED); }

/* A list of infos, which each program makes its own way. */
static void *start_list(void);

/* An object of the quality that the letter names, with spare room after it, because the types differ. */
static inline intptr_t object_for(char letter, const pmix_proc_t *me)
{
    void *room = need(calloc(1, 8192));
    switch (letter) {
    case 'P': *(pmix_proc_t *) room = *me; break;
    case 'K': strcpy(room, "t.wrong"); break;
    case 'S': strcpy(room, "nowhere"); break;
    case 'I': {
        pmix_info_t *info = room;
        strcpy(info->key, PMIX_TIMEOUT);
        info->value = value_int(2);
        break;
    }
    case 'V': *(pmix_value_t *) room = value_uint32(1); break;
    case 'L': free(room); return (intptr_t) start_list();
    case 'Y': {
        pmix_byte_object_t *object = room;
        object->bytes = need(calloc(1, 16));
        object->size = 16;
        break;
    }
    case 'F': return (intptr_t) called_back;
    case 'A': *(char **) room = copy_text("t.wrong"); break;
    default: break;
    }
    return (intptr_t) room;
}

static inline bool is_pointer(char letter) { return strchr("PKSIVOLYBFAX", letter & ~0x20) != NULL && letter != 'n'; }

/* The arguments of a call; the one with index `null` is NULL. */
static inline void fill_arguments(intptr_t *arguments, const char *letters, int null, const pmix_proc_t *me)
{
    for (int i = 0; letters[i] != '\0'; i++) {
        char letter = letters[i];
        arguments[i] = letter == 'n' ? 1 : letter == 'g' ? PMIX_GLOBAL : letter == 't' ? PMIX_UINT32 : 0;
        if (is_pointer(letter) && i != null) {
            arguments[i] = object_for(letter & ~0x20, me);
        }
    }
}

#endif
