// Namespaces go from one store to another: everything but open leases, compared at the end.

export type { Difference } from "../copy/compare.ts";
export { type CopiedNamespace, type CopyOptions, type CopyProgress, type CopyReport, copyStore } from "../copy/copy.ts";
export type { Copied } from "../copy/kinds.ts";
