/** Groups of commands. */
export const GROUPS: Readonly<Record<string, string>> = {
  entity: "Who is limited",
  resource: "What is limited, and its limits for everybody",
  plan: "Named sets of limits that entities refer to",
  system: "Limits for everybody on everything else",
  access: "Switch entities and resources off and on",
  cascade: "Whether parents are charged",
  namespace: "Tenants of one store",
  bucket: "What entities hold of their limits",
  lease: "What a service holds for its callers",
  usage: "What was used",
  refusals: "Who was refused, and by whose limit",
  events: "What happens now, as a service tells it",
  audit: "What was changed, when and by whom",
  local: "DynamoDB Local on this machine, to try things out",
  limits: "Declared limits: a file says what they are",
  token: "Who may use the HTTP service",
};
