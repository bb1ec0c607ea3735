import { accessAtInWords, type Ways } from "../domain/names/ways.ts";

/** For those who read a message on the command line. */
export const WAYS_OF_COMMANDS: Ways = {
  createEntity: "`zae-limiter entity create`",
  updateEntity: "`zae-limiter entity update`",
  createPlan: "`zae-limiter plan create`",
  updatePlan: "`zae-limiter plan update`",
  setSomeLimits:
    "`zae-limiter entity set-limits`, `zae-limiter resource set-defaults` or `zae-limiter system set-defaults`",
  limitsInRequest: "",
  setAccess: "`zae-limiter access set enforce`",
  registerNamespace: "`zae-limiter namespace register`",
  deleteNamespace: "`zae-limiter namespace delete`",
  recoverNamespace: "`zae-limiter namespace recover`",
  listOrphans: "`zae-limiter namespace orphans`",
  resetBucket: "`zae-limiter bucket reset` without --limit",
  ofText: () => "",
  accessAt: accessAtInWords,
};
