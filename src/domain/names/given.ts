/** An object whose names are absent where their value was undefined. */
type Given<Value extends object> = {
  [Name in keyof Value as undefined extends Value[Name] ? never : Name]: Value[Name];
} & {
  [Name in keyof Value as undefined extends Value[Name] ? Name : never]?: Exclude<Value[Name], undefined>;
};

/**
 * The object without the names whose value is undefined. A name that is there counts as said: to `exactOptionalPropertyTypes`, to checks for
 * unknown names, and to `in`.
 */
export function given<Value extends object>(value: Value): Given<Value> {
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return Object.fromEntries(entries) as Given<Value>;
}
