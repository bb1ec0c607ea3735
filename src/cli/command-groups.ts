/** Groups of commands. */
export const GROUPS: Readonly<Record<string, string>> = {
  entity: "Create, show and change entities",
  resource: "Set and show the default limits of resources",
  plan: "Create, show and change plans: named sets of limits",
  system: "Set and show the system-wide default limits",
  access: "Disable entities and resources, or bypass their limits",
  cascade: "Set and show whether parents are charged",
  namespace: "Register, delete and recover namespaces (tenants)",
  bucket: "List, show, reset and top up buckets",
  lease: "List, settle and roll back leases of a service",
  usage: "Show, sum, chart and export usage",
  refusals: "Show refused requests and the limits that refused them",
  events: "Follow the events of a service",
  audit: "List, follow and verify the audit log",
  local: "Run DynamoDB Local on this machine",
  limits: "Plan, apply and export limits declared in a file",
  token: "Add, list and remove tokens of the HTTP service",
};
