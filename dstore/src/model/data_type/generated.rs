// Written by `make generate` from the tables attributes.tsv and constants.tsv of ffi/abi.

use super::DataType;

impl DataType {
    /// `PMIX_UNDEF`.
    pub const UNDEF: DataType = DataType(0);
    /// `PMIX_BOOL`.
    pub const BOOL: DataType = DataType(1);
    /// `PMIX_BYTE`.
    pub const BYTE: DataType = DataType(2);
    /// `PMIX_STRING`.
    pub const STRING: DataType = DataType(3);
    /// `PMIX_SIZE`.
    pub const SIZE: DataType = DataType(4);
    /// `PMIX_PID`.
    pub const PID: DataType = DataType(5);
    /// `PMIX_INT`.
    pub const INT: DataType = DataType(6);
    /// `PMIX_INT8`.
    pub const INT8: DataType = DataType(7);
    /// `PMIX_INT16`.
    pub const INT16: DataType = DataType(8);
    /// `PMIX_INT32`.
    pub const INT32: DataType = DataType(9);
    /// `PMIX_INT64`.
    pub const INT64: DataType = DataType(10);
    /// `PMIX_UINT`.
    pub const UINT: DataType = DataType(11);
    /// `PMIX_UINT8`.
    pub const UINT8: DataType = DataType(12);
    /// `PMIX_UINT16`.
    pub const UINT16: DataType = DataType(13);
    /// `PMIX_UINT32`.
    pub const UINT32: DataType = DataType(14);
    /// `PMIX_UINT64`.
    pub const UINT64: DataType = DataType(15);
    /// `PMIX_FLOAT`.
    pub const FLOAT: DataType = DataType(16);
    /// `PMIX_DOUBLE`.
    pub const DOUBLE: DataType = DataType(17);
    /// `PMIX_TIMEVAL`.
    pub const TIMEVAL: DataType = DataType(18);
    /// `PMIX_TIME`.
    pub const TIME: DataType = DataType(19);
    /// `PMIX_STATUS`.
    pub const STATUS: DataType = DataType(20);
    /// `PMIX_VALUE`.
    pub const VALUE: DataType = DataType(21);
    /// `PMIX_PROC`.
    pub const PROC: DataType = DataType(22);
    /// `PMIX_APP`.
    pub const APP: DataType = DataType(23);
    /// `PMIX_INFO`.
    pub const INFO: DataType = DataType(24);
    /// `PMIX_PDATA`.
    pub const PDATA: DataType = DataType(25);
    /// `PMIX_BYTE_OBJECT`.
    pub const BYTE_OBJECT: DataType = DataType(27);
    /// `PMIX_KVAL`.
    pub const KVAL: DataType = DataType(28);
    /// `PMIX_PERSIST`.
    pub const PERSIST: DataType = DataType(30);
    /// `PMIX_POINTER`.
    pub const POINTER: DataType = DataType(31);
    /// `PMIX_SCOPE`.
    pub const SCOPE: DataType = DataType(32);
    /// `PMIX_DATA_RANGE`.
    pub const DATA_RANGE: DataType = DataType(33);
    /// `PMIX_COMMAND`.
    pub const COMMAND: DataType = DataType(34);
    /// `PMIX_INFO_DIRECTIVES`.
    pub const INFO_DIRECTIVES: DataType = DataType(35);
    /// `PMIX_DATA_TYPE`.
    pub const DATA_TYPE: DataType = DataType(36);
    /// `PMIX_PROC_STATE`.
    pub const PROC_STATE: DataType = DataType(37);
    /// `PMIX_PROC_INFO`.
    pub const PROC_INFO: DataType = DataType(38);
    /// `PMIX_DATA_ARRAY`.
    pub const DATA_ARRAY: DataType = DataType(39);
    /// `PMIX_PROC_RANK`.
    pub const PROC_RANK: DataType = DataType(40);
    /// `PMIX_QUERY`.
    pub const QUERY: DataType = DataType(41);
    /// `PMIX_COMPRESSED_STRING`.
    pub const COMPRESSED_STRING: DataType = DataType(42);
    /// `PMIX_ALLOC_DIRECTIVE`.
    pub const ALLOC_DIRECTIVE: DataType = DataType(43);
    /// `PMIX_IOF_CHANNEL`.
    pub const IOF_CHANNEL: DataType = DataType(45);
    /// `PMIX_ENVAR`.
    pub const ENVAR: DataType = DataType(46);
    /// `PMIX_COORD`.
    pub const COORD: DataType = DataType(47);
    /// `PMIX_REGATTR`.
    pub const REGATTR: DataType = DataType(48);
    /// `PMIX_REGEX`.
    pub const REGEX: DataType = DataType(49);
    /// `PMIX_JOB_STATE`.
    pub const JOB_STATE: DataType = DataType(50);
    /// `PMIX_LINK_STATE`.
    pub const LINK_STATE: DataType = DataType(51);
    /// `PMIX_PROC_CPUSET`.
    pub const PROC_CPUSET: DataType = DataType(52);
    /// `PMIX_GEOMETRY`.
    pub const GEOMETRY: DataType = DataType(53);
    /// `PMIX_DEVICE_DIST`.
    pub const DEVICE_DIST: DataType = DataType(54);
    /// `PMIX_ENDPOINT`.
    pub const ENDPOINT: DataType = DataType(55);
    /// `PMIX_TOPO`.
    pub const TOPO: DataType = DataType(56);
    /// `PMIX_DEVTYPE`.
    pub const DEVTYPE: DataType = DataType(57);
    /// `PMIX_LOCTYPE`.
    pub const LOCTYPE: DataType = DataType(58);
    /// `PMIX_COMPRESSED_BYTE_OBJECT`.
    pub const COMPRESSED_BYTE_OBJECT: DataType = DataType(59);
    /// `PMIX_PROC_NSPACE`.
    pub const PROC_NSPACE: DataType = DataType(60);
    /// `PMIX_PROC_STATS`.
    pub const PROC_STATS: DataType = DataType(61);
    /// `PMIX_DISK_STATS`.
    pub const DISK_STATS: DataType = DataType(62);
    /// `PMIX_NET_STATS`.
    pub const NET_STATS: DataType = DataType(63);
    /// `PMIX_NODE_STATS`.
    pub const NODE_STATS: DataType = DataType(64);
    /// `PMIX_DATA_BUFFER`.
    pub const DATA_BUFFER: DataType = DataType(65);
    /// `PMIX_STOR_MEDIUM`.
    pub const STOR_MEDIUM: DataType = DataType(66);
    /// `PMIX_STOR_ACCESS`.
    pub const STOR_ACCESS: DataType = DataType(67);
    /// `PMIX_STOR_PERSIST`.
    pub const STOR_PERSIST: DataType = DataType(68);
    /// `PMIX_STOR_ACCESS_TYPE`.
    pub const STOR_ACCESS_TYPE: DataType = DataType(69);
    /// `PMIX_BUFFER`.
    pub const BUFFER: DataType = DataType(26);
    /// `PMIX_DEVICE`.
    pub const DEVICE: DataType = DataType(70);
    /// `PMIX_RESBLOCK_DIRECTIVE`.
    pub const RESBLOCK_DIRECTIVE: DataType = DataType(71);
    /// `PMIX_RESOURCE_UNIT`.
    pub const RESOURCE_UNIT: DataType = DataType(72);
    /// `PMIX_NODE_PID`.
    pub const NODE_PID: DataType = DataType(73);
    /// `PMIX_REGEX2`.
    pub const REGEX2: DataType = DataType(74);
    /// `PMIX_ALLOC_INHERIT`.
    pub const ALLOC_INHERIT: DataType = DataType(75);
}

/// Codes and names.
pub const NAMES: &[(u16, &str)] = &[
    (0, "UNDEF"),
    (1, "BOOL"),
    (2, "BYTE"),
    (3, "STRING"),
    (4, "SIZE"),
    (5, "PID"),
    (6, "INT"),
    (7, "INT8"),
    (8, "INT16"),
    (9, "INT32"),
    (10, "INT64"),
    (11, "UINT"),
    (12, "UINT8"),
    (13, "UINT16"),
    (14, "UINT32"),
    (15, "UINT64"),
    (16, "FLOAT"),
    (17, "DOUBLE"),
    (18, "TIMEVAL"),
    (19, "TIME"),
    (20, "STATUS"),
    (21, "VALUE"),
    (22, "PROC"),
    (23, "APP"),
    (24, "INFO"),
    (25, "PDATA"),
    (27, "BYTE_OBJECT"),
    (28, "KVAL"),
    (30, "PERSIST"),
    (31, "POINTER"),
    (32, "SCOPE"),
    (33, "DATA_RANGE"),
    (34, "COMMAND"),
    (35, "INFO_DIRECTIVES"),
    (36, "DATA_TYPE"),
    (37, "PROC_STATE"),
    (38, "PROC_INFO"),
    (39, "DATA_ARRAY"),
    (40, "PROC_RANK"),
    (41, "QUERY"),
    (42, "COMPRESSED_STRING"),
    (43, "ALLOC_DIRECTIVE"),
    (45, "IOF_CHANNEL"),
    (46, "ENVAR"),
    (47, "COORD"),
    (48, "REGATTR"),
    (49, "REGEX"),
    (50, "JOB_STATE"),
    (51, "LINK_STATE"),
    (52, "PROC_CPUSET"),
    (53, "GEOMETRY"),
    (54, "DEVICE_DIST"),
    (55, "ENDPOINT"),
    (56, "TOPO"),
    (57, "DEVTYPE"),
    (58, "LOCTYPE"),
    (59, "COMPRESSED_BYTE_OBJECT"),
    (60, "PROC_NSPACE"),
    (61, "PROC_STATS"),
    (62, "DISK_STATS"),
    (63, "NET_STATS"),
    (64, "NODE_STATS"),
    (65, "DATA_BUFFER"),
    (66, "STOR_MEDIUM"),
    (67, "STOR_ACCESS"),
    (68, "STOR_PERSIST"),
    (69, "STOR_ACCESS_TYPE"),
    (26, "BUFFER"),
    (70, "DEVICE"),
    (71, "RESBLOCK_DIRECTIVE"),
    (72, "RESOURCE_UNIT"),
    (73, "NODE_PID"),
    (74, "REGEX2"),
    (75, "ALLOC_INHERIT"),
];
