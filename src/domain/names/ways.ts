/**
 * What a message tells its reader to use. In code these are calls; on the command line, over HTTP and on the page they are commands,
 * routes and buttons: a reader there cannot use the name of a call.
 */
export interface Ways {
  readonly createEntity: string;
  readonly updateEntity: string;
  readonly createPlan: string;
  readonly updatePlan: string;
  /** Of one entity, of a resource, of the system: all three, as a list. */
  readonly setSomeLimits: string;
  /** Ends a sentence on limits that are missing: how a request brings its own; empty where it cannot. */
  readonly limitsInRequest: string;
  readonly setAccess: string;
  readonly registerNamespace: string;
  readonly deleteNamespace: string;
  readonly recoverNamespace: string;
  readonly listOrphans: string;
  /** Resets all limits of a bucket. */
  readonly resetBucket: string;
  /** A further sentence on how a name is made of any text by this function; empty where there is none. */
  ofText(call: string): string;
  /** Where something was said about access. */
  accessAt(source: string): string;
}

/** A message, or how it is made for each surface. */
export type Message = string | ((ways: Ways) => string);

/** For those who call the library. */
export const WAYS_IN_CODE: Ways = {
  createEntity: "createEntity",
  updateEntity: "updateEntity",
  createPlan: "createPlan",
  updatePlan: "updatePlan",
  setSomeLimits: "setLimits, setResourceDefaults or setSystemDefaults",
  limitsInRequest: ", or pass them in `limits`",
  setAccess: "setAccess",
  registerNamespace: "registerNamespace",
  deleteNamespace: "deleteNamespace",
  recoverNamespace: "recoverNamespace",
  listOrphans: "listOrphanNamespaces",
  resetBucket: "resetBucket without `limits`",
  ofText: (call) => ` ${call}(text) makes one from any text.`,
  accessAt: (source) => source,
};

const ACCESS_AT: Readonly<Record<string, string>> = {
  entity: "for this entity on this resource",
  entityDefault: "for this entity on all resources",
  resource: "for every entity",
};

/** The same in words, for those who do not know the names of levels. */
export function accessAtInWords(source: string): string {
  return ACCESS_AT[source] ?? source;
}
