/** A text without what stands between the scheme and the host of an address, where passwords are. */
export function withoutSecrets(text: string): string {
  return text.replace(/(:\/|\/\/)[^\s"'`]*@/g, "$1***@");
}

/** A value as an error message shows it: quoted, cut after 50 characters, without passwords. */
export function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(cut(value));
  if (typeof value === "bigint") return `${value}n`;
  const isPlain = typeof value === "object" || typeof value === "boolean";
  return isPlain ? cut(jsonOf(value)) : String(value);
}

function cut(secret: string): string {
  const text = withoutSecrets(secret);
  return text.length > 50 ? `${text.slice(0, 50)}...` : text;
}

// A circle, or a bigint inside: showing a wrong value must not fail in its own way.
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

/** Before a text of which only the characters that are not allowed are changed: `text:auth0_7C42`. */
export const LEGIBLE = "text:";

/** Before a text that would be too long in that form, in which a character takes up to six: all of it packed, 3 bytes in 4. */
export const PACKED = "t64:";

/**
 * An entity id or a resource as its owner wrote it: for sentences that people read. Never throws. A name that only looks as if it
 * was made of a text is read as one, too, and half a character becomes a mark: what tells them apart is larger than all errors,
 * which every client loads.
 */
export function plainText(name: string): string {
  const [, form, rest = ""] = /^(text|t64):(.+)/.exec(name) ?? [];
  if (form === "text") {
    return rest.replace(/_u([\dA-F]{4})|_([\dA-F]{2})/g, (_, four, two) =>
      String.fromCharCode(Number.parseInt(four ?? two, 16)),
    );
  }
  if (form === undefined || !/^[\w-]+$/.test(rest) || rest.length % 4 === 1) return name;
  const bytes = atob(rest.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder().decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
}

/**
 * The names of what a message tells its reader to use. In code these are calls; on the command line, over HTTP and on the page commands,
 * routes and buttons: a reader there cannot use the name of a call.
 */
export interface Ways {
  readonly createEntity: string;
  readonly updateEntity: string;
  readonly createPlan: string;
  readonly updatePlan: string;
  /** The ways to set limits of one entity, of a resource, of the system, as a list. */
  readonly setSomeLimits: string;
  /** Ends a sentence on limits that are missing: how a request brings its own; empty where it cannot. */
  readonly limitsInRequest: string;
  readonly setAccess: string;
  readonly registerNamespace: string;
  readonly deleteNamespace: string;
  readonly recoverNamespace: string;
  readonly unfreezeNamespace: string;
  readonly listOrphans: string;
  /** Resets all limits of a bucket. */
  readonly resetBucket: string;
  /** A further sentence on how a name is made of any text by this function; empty where there is none. */
  ofText(call: string): string;
  /** The place where something was said about access. */
  accessAt(source: string): string;
}

/** A message, or how it is made for each surface. */
export type Message = string | ((ways: Ways) => string);

/** The ways of callers of the library. */
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
  unfreezeNamespace: "unfreezeNamespace",
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

/** The place of an access in words, for readers who do not know the names of levels. */
export function accessAtInWords(source: string): string {
  return ACCESS_AT[source] ?? source;
}
