// Nothing but the headers: they have to be valid C++, too.
#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>

int main()
{
    return 0;
}
