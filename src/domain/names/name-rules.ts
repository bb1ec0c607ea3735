/**
 * Words of the DynamoDB table: a usage record has an attribute named for each limit beside these, so that a limit of such a
 * name could not be distinguished from them. They are refused on every store, so that limits can move from one store to another.
 */
const RESERVED_NAMES: ReadonlySet<string> = new Set(
  (
    "wcu PK SK GSI1PK GSI1SK GSI2PK GSI2SK GSI3PK GSI3SK GSI4PK GSI4SK " +
    "entity_id resource window window_start total_events ttl"
  ).split(" "),
);

export interface NameRule {
  readonly what: string;
  readonly code: string;
  readonly pattern: RegExp;
  /** A character that may stand anywhere but at the beginning. */
  readonly laterCharacter: RegExp;
  readonly lengthMax: number;
  readonly reserved: ReadonlySet<string>;
  readonly remedy: string;
  /** The function that makes such a name of any text. */
  readonly ofText?: string | undefined;
}

const none: ReadonlySet<string> = new Set();

export const ENTITY_ID: NameRule = {
  what: "entity id",
  code: "entity_id_invalid",
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]*$/,
  laterCharacter: /^[a-zA-Z0-9_.\-:@]$/,
  lengthMax: 256,
  reserved: none,
  remedy: "begin with a letter or digit and use letters, digits and _ . - : @",
  ofText: "entityIdOf",
};

export const RESOURCE: NameRule = {
  what: "resource",
  code: "resource_invalid",
  pattern: /^[a-zA-Z][a-zA-Z0-9_.\-/:]*$/,
  laterCharacter: /^[a-zA-Z0-9_.\-/:]$/,
  lengthMax: 64,
  reserved: new Set([...RESERVED_NAMES].filter((name) => name !== "wcu")),
  remedy: "begin with a letter and use letters, digits and _ . - / :",
  ofText: "resourceOf",
};

export const LIMIT_NAME: NameRule = {
  what: "limit name",
  code: "limit_name_invalid",
  pattern: /^[a-zA-Z][a-zA-Z0-9_.-]*$/,
  laterCharacter: /^[a-zA-Z0-9_.-]$/,
  lengthMax: 64,
  reserved: RESERVED_NAMES,
  remedy: "begin with a letter and use letters, digits and _ . -",
};

export const NAMESPACE: NameRule = {
  what: "namespace",
  code: "namespace_invalid",
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]*$/,
  laterCharacter: /^[a-zA-Z0-9_.\-:@]$/,
  lengthMax: 64,
  reserved: none,
  remedy: "begin with a letter or digit and use letters, digits and _ . - : @",
};

export function isAllowed({ pattern, lengthMax, reserved }: NameRule, name: string): boolean {
  return name.length <= lengthMax && pattern.test(name) && !reserved.has(name);
}
