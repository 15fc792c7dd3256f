// libtirpc can authenticate by Kerberos, whose library is not there as a static one. Nothing here asks for it: what
// the linker misses ends the program.
#include <stdlib.h>

#define ABSENT(name) void name(void) { abort(); }

ABSENT(gss_accept_sec_context)
ABSENT(gss_acquire_cred)
ABSENT(gss_canonicalize_name)
ABSENT(gss_delete_sec_context)
ABSENT(gss_display_name)
ABSENT(gss_display_status)
ABSENT(gss_duplicate_name)
ABSENT(gss_export_name)
ABSENT(gss_get_mic)
ABSENT(gss_import_name)
ABSENT(gss_init_sec_context)
ABSENT(gss_pname_to_uid)
ABSENT(gss_release_buffer)
ABSENT(gss_release_cred)
ABSENT(gss_release_name)
ABSENT(gss_sign)
ABSENT(gss_unwrap)
ABSENT(gss_verify_mic)
ABSENT(gss_wrap)
ABSENT(gss_wrap_size_limit)

void *GSS_C_NT_HOSTBASED_SERVICE, *GSS_C_NT_USER_NAME;
