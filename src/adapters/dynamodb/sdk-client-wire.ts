/** From DynamoDB's JSON to what the AWS SDK's commands take: binary values are bytes there, and base64 on the wire. */
export function fromWire(value: unknown): unknown {
  return mapped(value, (object) => {
    // A name of one letter cannot be anything else here: attribute names stand over objects, placeholders begin with # or :.
    const [[key, inner] = ["", undefined], ...others] = Object.entries(object);
    if (others.length > 0) return undefined;
    if (key === "B" && typeof inner === "string") return { B: Buffer.from(inner, "base64") };
    if (key === "BS" && Array.isArray(inner)) return { BS: inner.map((item) => Buffer.from(String(item), "base64")) };
    return undefined;
  });
}

/** Back again. Dates are seconds on the wire; what the SDK leaves undefined is not there. */
export function toWire(value: unknown): unknown {
  return mapped(value, (object) => {
    if (object instanceof Uint8Array) return Buffer.from(object).toString("base64");
    if (object instanceof Date) return object.getTime() / 1000;
    return undefined;
  });
}

/** `leaf` says what becomes of an object as a whole; undefined: what becomes of its parts. */
function mapped(value: unknown, leaf: (object: object) => unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => mapped(item, leaf));
  const whole = leaf(value);
  if (whole !== undefined) return whole;
  const parts = Object.entries(value).filter(([, part]) => part !== undefined);
  return Object.fromEntries(parts.map(([key, part]) => [key, mapped(part, leaf)]));
}
