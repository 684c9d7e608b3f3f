//! The node and process maps of a job and their compressed forms.
