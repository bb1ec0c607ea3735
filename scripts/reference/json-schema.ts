import { code } from "./markdown.ts";

/** As much of JSON Schema as the service's document has. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly example?: unknown;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly anyOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

/** A field of an object, or of an object in it: `wait.maxMs`. */
export interface Field {
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
  readonly description: string;
}

/** The name of a schema that has one. */
export function nameOf({ $ref }: Schema): string | undefined {
  return $ref?.split("/").at(-1);
}

/** A type as TypeScript writes it. */
export function typeOf(schema: Schema): string {
  const name = nameOf(schema);
  if (name !== undefined) return name;
  if (schema.allOf !== undefined) return schema.allOf.filter(isTyped).map(typeOf).join(" & ");
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(" | ");
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.items !== undefined) return listed(typeOf(schema.items));
  if (typeof schema.additionalProperties === "object") return `Record<string, ${typeOf(schema.additionalProperties)}>`;
  const types = [schema.type ?? "unknown"].flat().map((type) => (type === "integer" ? "number" : type));
  return types.join(" | ");
}

function listed(type: string): string {
  return type.includes(" | ") ? `(${type})[]` : `${type}[]`;
}

function isTyped(schema: Schema): boolean {
  return Object.keys(schema).some((key) => key !== "description" && key !== "example");
}

/** The schemas that a type names, so that it can be linked to. */
export function namesIn(schema: Schema): readonly string[] {
  const own = nameOf(schema);
  const parts = [schema.items, schema.additionalProperties, ...(schema.anyOf ?? []), ...(schema.allOf ?? [])];
  const inner = parts.flatMap((part) => (typeof part === "object" ? namesIn(part) : []));
  return [...new Set(own === undefined ? inner : [own])];
}

/** The fields of an object, those of objects in it after each. */
export function fieldsOf(schema: Schema, prefix = ""): readonly Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, field]) => {
    const name = `${prefix}${key}`;
    const description =
      field.description ?? field.allOf?.find((part) => part.description !== undefined)?.description ?? "";
    const isRequired = schema.required?.includes(key) ?? false;
    const inner = field.properties !== undefined ? fieldsOf(field, `${name}.`) : [];
    const listedInner = field.items?.properties !== undefined ? fieldsOf(field.items, `${name}[].`) : [];
    return [{ name, schema: field, isRequired, description }, ...inner, ...listedInner];
  });
}

/** The type in code, linked where it names one schema. */
export function linkedType(schema: Schema): string {
  const text = code(typeOf(schema).replaceAll("|", "\\|"));
  const [only, ...more] = namesIn(schema);
  return only === undefined || more.length > 0 ? text : `[${text}](#${only.toLowerCase()})`;
}
