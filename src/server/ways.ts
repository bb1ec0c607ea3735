import { accessAtInWords, type Ways } from "../domain/names/shown.ts";
import { NS } from "./route.ts";

/** For those who read a message in an answer of the service. */
export const WAYS_OF_ROUTES: Ways = {
  createEntity: `POST ${NS}/entities`,
  updateEntity: `PATCH ${NS}/entities/{id}`,
  createPlan: `POST ${NS}/plans`,
  updatePlan: `PATCH ${NS}/plans/{id}`,
  setSomeLimits: `PUT ${NS}/limits?entityId=&resource= (either, both, or neither for the system)`,
  limitsInRequest: ", or send them in `limits` (scope admin)",
  setAccess: `PUT ${NS}/access`,
  registerNamespace: "POST /v1/namespaces",
  deleteNamespace: `DELETE ${NS}`,
  recoverNamespace: "POST /v1/orphans/{id}/recover",
  unfreezeNamespace: `POST ${NS}/unfreeze`,
  listOrphans: "GET /v1/orphans",
  resetBucket: `POST ${NS}/reset without limits`,
  ofText: () => "",
  accessAt: accessAtInWords,
};

/** For those who read it on the page. */
const WAYS_OF_THE_PAGE: Ways = {
  createEntity: "New entity under Entities",
  updateEntity: "Edit under Entities",
  createPlan: "New plan under Plans",
  updatePlan: "Edit under Plans",
  setSomeLimits: "Save under Limits",
  limitsInRequest: "",
  setAccess: "Access and cascade under Limits",
  registerNamespace: "Create under Namespaces",
  deleteNamespace: "Remove under Namespaces",
  recoverNamespace: "Recover under Namespaces",
  unfreezeNamespace: "`zae-limiter namespace unfreeze`",
  listOrphans: "the page Namespaces",
  resetBucket: "Reset of the opened bucket",
  ofText: () => "",
  accessAt: accessAtInWords,
};

/** The field by which the page says that its reader has buttons, not routes. */
const SURFACE_FIELD = "zae-limiter-surface";

export function waysFor(request: Request): Ways {
  return request.headers.get(SURFACE_FIELD) === "page" ? WAYS_OF_THE_PAGE : WAYS_OF_ROUTES;
}
