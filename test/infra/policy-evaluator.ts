import type { PolicyDocument, Statement } from "../../src/infra/policies.ts";

/** One thing that is to be allowed, as IAM sees it. */
export interface Access {
  readonly action: string;
  readonly resource: string;
  /** `dynamodb:LeadingKeys`; empty: the request has none. */
  readonly keys: readonly string[];
}

/** Whoever asks, with the tags of their session. */
export interface Principal {
  readonly tags: Readonly<Record<string, string>>;
}

/** Whether some statement allows it. There is no Deny in our policies, and what nobody allows is denied. */
export function isAllowed({ Statement: statements }: PolicyDocument, access: Access, principal: Principal): boolean {
  return statements.some((statement) => allows(statement, access, principal));
}

export function allows(statement: Statement, access: Access, principal: Principal): boolean {
  return (
    statement.Effect === "Allow" &&
    statement.Action.some((action) => isLike(action, access.action)) &&
    statement.Resource.some((resource) => isLike(String(resource), access.resource)) &&
    Object.entries(statement.Condition ?? {}).every(([operator, conditions]) =>
      Object.entries(conditions).every(([name, values]) => holds(operator, name, [values].flat(), access, principal)),
    )
  );
}

/** The patterns of a statement's keys that a key is like, with the principal's tags in their place. */
export function patternsFor(statement: Statement, key: string, principal: Principal): readonly string[] {
  const keys = statement.Condition?.["ForAllValues:StringLike"]?.["dynamodb:LeadingKeys"] ?? [];
  return [keys].flat().filter((pattern) => isLike(withTags(pattern, principal), key));
}

function holds(
  operator: string,
  name: string,
  values: readonly string[],
  { keys }: Access,
  principal: Principal,
): boolean {
  if (name !== "dynamodb:LeadingKeys") throw new Error(`The evaluator does not know the condition on ${name}.`);
  switch (operator) {
    case "ForAllValues:StringLike": {
      const patterns = values.map((value) => withTags(value, principal));
      // Of no keys, all are like any.
      return keys.every((key) => patterns.some((pattern) => isLike(pattern, key)));
    }
    case "Null":
      return (keys.length === 0) === (values[0] === "true");
    default:
      throw new Error(`The evaluator does not know ${operator}.`);
  }
}

/** A variable that has no value makes a pattern that nothing is like. */
function withTags(pattern: string, { tags }: Principal): string {
  return pattern.replace(/\$\{aws:PrincipalTag\/([^}]+)\}/g, (_, name: string) => tags[name] ?? NOTHING);
}

const NOTHING = "\u0000";

/** `*` is any number of characters, `?` one; the rest is itself. */
function isLike(pattern: string, text: string): boolean {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*/g, "[\\s\\S]*")
    .replace(/\?/g, "[\\s\\S]");
  return new RegExp(`^${source}$`).test(text);
}
