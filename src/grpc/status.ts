/** The codes of gRPC that we answer with, by their numbers. */
export const GRPC_CODES = {
  OK: 0,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;

export type GrpcCode = keyof typeof GRPC_CODES;

/** A call that ends with a status instead of an answer. */
export class GrpcError extends Error {
  readonly code: GrpcCode;

  constructor(code: GrpcCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** A message as the field `grpc-message` carries it: printable ASCII but `%`, and every other byte as `%XX`. */
export function messageField(message: string): string {
  if (/^[ -$&-~]*$/.test(message)) return message;
  return Array.from(Buffer.from(message), (byte) => {
    return byte >= 0x20 && byte <= 0x7e && byte !== 0x25
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}

const UNITS_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };

/** The ms of a field `grpc-timeout`, such as `250m`; undefined where there is none that can be read. */
export function timeoutMs(field: string | undefined): number | undefined {
  const [, digits, unit = ""] = /^(\d{1,8})([HMSmun])$/.exec(field ?? "") ?? [];
  return digits === undefined ? undefined : Number(digits) * (UNITS_MS[unit] as number);
}
