import {
  create,
  createFileRegistry,
  type DescMessage,
  fromBinary,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import {
  type FieldDescriptorProto,
  FieldDescriptorProtoSchema,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  file_google_protobuf_duration,
  file_google_protobuf_struct,
  file_google_protobuf_wrappers,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";

// The messages of the edge for protobuf-es, by their field numbers: what our codec is held against.

type Field = readonly [name: string, number: number, type: string, repeated?: "repeated"];

const SCALARS: Readonly<Record<string, Type>> = {
  string: Type.STRING,
  bytes: Type.BYTES,
  bool: Type.BOOL,
  uint32: Type.UINT32,
  uint64: Type.UINT64,
};

function field([name, number, type, repeated]: Field): FieldDescriptorProto {
  const label = repeated === undefined ? Label.OPTIONAL : Label.REPEATED;
  const scalar = SCALARS[type];
  const isEnum = type.endsWith("Code") || type.endsWith("Unit") || type.endsWith("ServingStatus");
  const of =
    scalar === undefined ? { type: isEnum ? Type.ENUM : Type.MESSAGE, typeName: `.${type}` } : { type: scalar };
  return create(FieldDescriptorProtoSchema, { name, number, label, ...of });
}

const MESSAGES: Readonly<Record<string, readonly Field[]>> = {
  Entry: [
    ["key", 1, "string"],
    ["value", 2, "string"],
  ],
  RateLimitOverride: [["requests_per_unit", 1, "uint32"]],
  RateLimitDescriptor: [
    ["entries", 1, "edge.Entry", "repeated"],
    ["limit", 2, "edge.RateLimitOverride"],
    ["hits_addend", 3, "google.protobuf.UInt64Value"],
    ["is_negative_hits", 4, "bool"],
  ],
  RateLimitRequest: [
    ["domain", 1, "string"],
    ["descriptors", 2, "edge.RateLimitDescriptor", "repeated"],
    ["hits_addend", 3, "uint32"],
  ],
  RateLimit: [
    ["requests_per_unit", 1, "uint32"],
    ["unit", 2, "edge.Unit"],
    ["name", 3, "string"],
  ],
  DescriptorStatus: [
    ["code", 1, "edge.Code"],
    ["current_limit", 2, "edge.RateLimit"],
    ["limit_remaining", 3, "uint32"],
    ["duration_until_reset", 4, "google.protobuf.Duration"],
  ],
  HeaderValue: [
    ["key", 1, "string"],
    ["value", 2, "string"],
  ],
  RateLimitResponse: [
    ["overall_code", 1, "edge.Code"],
    ["statuses", 2, "edge.DescriptorStatus", "repeated"],
    ["response_headers_to_add", 3, "edge.HeaderValue", "repeated"],
    ["request_headers_to_add", 4, "edge.HeaderValue", "repeated"],
    ["raw_body", 5, "bytes"],
    ["dynamic_metadata", 6, "google.protobuf.Struct"],
  ],
  ReserveRequest: [
    ["domain", 1, "string"],
    ["descriptors", 2, "edge.RateLimitDescriptor", "repeated"],
    ["amount", 3, "uint64"],
    ["ttl", 4, "google.protobuf.Duration"],
  ],
  ReserveResponse: [
    ["code", 1, "edge.Code"],
    ["reservation_id", 2, "string"],
  ],
  CommitRequest: [
    ["domain", 1, "string"],
    ["descriptors", 2, "edge.RateLimitDescriptor", "repeated"],
    ["reservation_id", 3, "string"],
    ["actual_amount", 4, "uint64"],
  ],
  CommitResponse: [["reservation_released", 1, "bool"]],
  HealthCheckRequest: [["service", 1, "string"]],
  HealthCheckResponse: [["status", 1, "edge.ServingStatus"]],
};

const ENUMS: Readonly<Record<string, readonly string[]>> = {
  Code: ["UNKNOWN", "OK", "OVER_LIMIT"],
  Unit: ["UNIT_UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"],
  ServingStatus: ["HEALTH_UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"],
};

const WELL_KNOWN = [file_google_protobuf_duration, file_google_protobuf_struct, file_google_protobuf_wrappers];

const registry = createFileRegistry(
  create(FileDescriptorSetSchema, {
    file: [
      ...WELL_KNOWN.map(({ proto }) => proto),
      create(FileDescriptorProtoSchema, {
        name: "edge.proto",
        package: "edge",
        syntax: "proto3",
        dependency: WELL_KNOWN.map(({ proto }) => proto.name),
        messageType: Object.entries(MESSAGES).map(([name, fields]) => ({ name, field: fields.map(field) })),
        enumType: Object.entries(ENUMS).map(([name, values]) => ({
          name,
          value: values.map((value, number) => ({ name: value, number })),
        })),
      }),
    ],
  }),
);

function schemaOf(name: string): DescMessage {
  const schema = registry.getMessage(`edge.${name}`);
  if (schema === undefined) throw new Error(`There is no message ${name}.`);
  return schema;
}

/** The bytes of a message, by protobuf-es. */
export function encoded(name: string, fields: object): Buffer {
  const schema = schemaOf(name);
  return Buffer.from(toBinary(schema, create(schema, fields as never)));
}

/** A message from bytes, by protobuf-es. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects to be there.
export function decoded(name: string, bytes: Uint8Array): any {
  return fromBinary(schemaOf(name), bytes) as MessageShape<DescMessage>;
}
