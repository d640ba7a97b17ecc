// One algorithm on one mesh as XML for RCCL. Used by `kolo export` and its tests.
#pragma once

#include "tools/compile/Compile.h"

#include "compiler/export/MscclXml.h"

namespace kolo::tools {

/// The request's one choreography on its one mesh. Throws ToolError: Refused where RCCL's XML cannot say what it does,
/// and as compile does; Usage for several choreographies or meshes, or none.
msccl::Xml exportXml(const CompileRequest &request, const msccl::XmlOptions &options);

} // namespace kolo::tools
