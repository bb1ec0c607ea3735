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
  const said: Partial<Value> = {};
  for (const name of Object.keys(value) as (keyof Value)[]) {
    if (value[name] !== undefined) said[name] = value[name];
  }
  return said as Value as Given<Value>;
}

/** A value after a change: `null` takes it away, `undefined` keeps it. */
export function valueAfter<Value>(change: Value | null | undefined, before: Value | undefined): Value | undefined {
  return change === undefined ? before : (change ?? undefined);
}
