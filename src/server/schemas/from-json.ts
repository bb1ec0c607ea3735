import type { JsonSchema } from "../../domain/limits/limit-field.ts";
import { z } from "../vendor.ts";

/** The schema that checks what a JSON Schema describes. An object has no other members than those that it names. */
export function schemaOf(json: JsonSchema): z.ZodType {
  const schema = plainOf(json);
  return json.description === undefined ? schema : schema.openapi({ description: json.description });
}

function plainOf({
  type,
  anyOf,
  items = {},
  maxItems,
  maxLength,
  properties = {},
  required = [],
}: JsonSchema): z.ZodType {
  if (anyOf !== undefined) return z.union(anyOf.map(schemaOf) as [z.ZodType, z.ZodType]);
  switch (type) {
    case "string":
      return maxLength === undefined ? z.string() : z.string().max(maxLength);
    case "number":
      return z.number();
    case "boolean":
      return z.boolean();
    case "array":
      return maxItems === undefined ? z.array(schemaOf(items)) : z.array(schemaOf(items)).max(maxItems);
    default: {
      const members = Object.entries(properties).map(([name, each]) => {
        const schema = schemaOf(each);
        return [name, required.includes(name) ? schema : schema.optional()];
      });
      return z.strictObject(Object.fromEntries(members));
    }
  }
}
