import { randomBytes } from "node:crypto";
import { chmodSync, chownSync, existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { ExistsError, NotFoundError, ValidationError } from "../domain/names/errors.ts";
import { checkTokens, readTokens, sha256Of, type TokenEntry } from "./tokens.ts";

function keepOwner(file: string, beside: string): void {
  const [was, made] = [statSync(file), statSync(beside)];
  if (was.uid !== made.uid || was.gid !== made.gid) {
    try {
      chownSync(beside, was.uid, was.gid);
    } catch (error) {
      throw new ValidationError(
        "tokens_invalid",
        `${file} belongs to the user ${was.uid} and the group ${was.gid}, which could no longer read it; run this as that user, or as root. Nothing was changed.`,
        { cause: error },
      );
    }
  }
  chmodSync(beside, was.mode & 0o777);
}

/** A new token: 256 random bits after a prefix by which scanners find it where it should not be. */
export function newToken(): string {
  return `zael_${randomBytes(32).toString("base64url")}`;
}

/** Adds an entry for a token, making the file where there is none. Nothing is written where something is wrong. */
export function addToken(file: string, token: string, about: Omit<TokenEntry, "sha256">): void {
  writeTokens(file, planToken(file, token, about));
}

/** The entries that there would be. */
export function planToken(file: string, token: string, about: Omit<TokenEntry, "sha256">): readonly TokenEntry[] {
  const before = existsSync(file) ? readTokens(file) : [];
  if (before.some(({ id }) => id === about.id)) {
    throw new ExistsError(
      "token_exists",
      `${file} has a token ${about.id} already; remove it first, or choose another id.`,
    );
  }
  const { id, ...rest } = about;
  return checkTokens([...before, { id, sha256: sha256Of(token), ...rest }], file);
}

export function removeToken(file: string, id: string): void {
  const { entry, entries } = findEntry(file, id);
  writeTokens(
    file,
    entries.filter((one) => one !== entry),
  );
}

export function findEntry(
  file: string,
  id: string,
): { readonly entry: TokenEntry; readonly entries: readonly TokenEntry[] } {
  const entries = readTokens(file);
  const entry = entries.find((one) => one.id === id);
  if (entry !== undefined) return { entry, entries };
  const known = entries.length === 0 ? "there are none" : `there are ${entries.map((one) => one.id).join(", ")}`;
  throw new NotFoundError("token_not_found", `${file} has no token ${JSON.stringify(id)}; ${known}.`);
}

/**
 * Replaces the file in one step: a service that reads the file sees the old one or the new one. A new file only its owner may read; one that is there
 * stays whose it is, or the service that it was made for could not read it any more.
 */
function writeTokens(file: string, tokens: readonly TokenEntry[]): void {
  mkdirSync(dirname(file), { recursive: true });
  const beside = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    writeFileSync(beside, `${JSON.stringify({ tokens }, undefined, 2)}\n`, { mode: 0o600, flag: "wx" });
    if (existsSync(file)) keepOwner(file, beside);
    renameSync(beside, file);
  } catch (error) {
    rmSync(beside, { force: true });
    throw error;
  }
}
