import { readFileSync } from "node:fs";
import { LimiterError } from "../../domain/names/errors.ts";
import type { PostgresAddress } from "./address.ts";

/** The settings of TLS for `pg`; false: none. */
export type Ssl =
  | false
  | {
      readonly ca?: string;
      readonly cert?: string;
      readonly key?: string;
      readonly rejectUnauthorized: boolean;
      readonly checkServerIdentity?: () => undefined;
    };

/** The settings of an address, as libpq has them. For `prefer`, `canTls` tells whether the server has it. */
export async function sslOf(address: PostgresAddress, canTls: (ssl: Ssl) => Promise<boolean>): Promise<Ssl> {
  const { ssl, sslRootCert, sslCert, sslKey, host } = address;
  // Nobody listens on a socket of this machine.
  if (ssl === "disable" || host.startsWith("/")) return false;
  const files = {
    ...(sslRootCert === undefined || sslRootCert === "system" ? {} : { ca: contentOf(sslRootCert, "sslrootcert") }),
    ...(sslCert === undefined ? {} : { cert: contentOf(sslCert, "sslcert") }),
    ...(sslKey === undefined ? {} : { key: contentOf(sslKey, "sslkey") }),
  };
  if (ssl === "verify-full") return { ...files, rejectUnauthorized: true };
  if (ssl === "verify-ca") return { ...files, rejectUnauthorized: true, checkServerIdentity: () => undefined };
  const unverified = { ...files, rejectUnauthorized: false };
  if (ssl === "require") return unverified;
  return (await canTls(unverified)) ? unverified : false;
}

export function isWithoutTls(error: unknown): boolean {
  return error instanceof Error && /does not support SSL/i.test(error.message);
}

/** The fault in the TLS of a server, and the remedy; undefined: the error is about something else. */
export function tlsFault(error: unknown): string | undefined {
  if (isWithoutTls(error)) {
    return "the server has no TLS, and the address asks for it. Turn ssl on at the server, or give sslmode=disable";
  }
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID" || code === "HOSTNAME_MISMATCH") {
    return `its certificate is for another host (${code}). Give the host that it is for, or sslmode=verify-ca`;
  }
  if (!UNTRUSTED.test(code)) return undefined;
  return `its certificate is not trusted (${code}). Give the certificate of its CA with sslrootcert=FILE`;
}

/** Reasons of OpenSSL, as Node names them. */
const UNTRUSTED =
  /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_[A-Z_]+|CERT_[A-Z_]+|INVALID_CA|INVALID_PURPOSE)$/;

function contentOf(file: string, parameter: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new LimiterError("store_refused", `The file of ${parameter} cannot be read: ${file}.`, { cause });
  }
}
