import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { checkMeasure } from "../domain/names/names.ts";
import type { KindWeights } from "../llm/meter.ts";
import { TOKEN_KINDS } from "../llm/meter.ts";
import { type FileProblem, type ProblemCode, problemLines } from "../manifest/manifest.ts";
import { type DocumentEntry, type Member, openReading, Reading } from "../manifest/reading.ts";
import type { KeyPlace } from "./provider-keys.ts";

export interface ProxyConfig {
  readonly providers: readonly ProviderConfig[];
  readonly prices: PricesFile | undefined;
  /** The weights by measure; undefined: those of the adapters. */
  readonly weights: Readonly<Record<string, KindWeights>> | undefined;
  readonly estimate: "learned" | "plain";
}

interface ProviderConfig {
  readonly name: string;
  readonly wire: "openai" | "anthropic";
  /** The address, without a slash at the end. */
  readonly baseUrl: string;
  readonly key: KeyPlace;
  readonly allow: readonly string[];
}

/** A file of prices: one's own, or the map that LiteLLM publishes, of a day. */
export interface PricesFile {
  readonly file: string;
  readonly litellmAsOf: string | undefined;
}

/** Everything that is wrong with a configuration, at once. */
export class ProxyInvalid extends ValidationError {
  readonly problems: readonly FileProblem<ProblemCode>[];

  constructor(file: string, problems: readonly FileProblem<ProblemCode>[]) {
    super("proxy_invalid", problemLines(file, problems));
    this.problems = problems;
  }
}

const NOTHING = "the file has no providers; give at least one, with wire, base_url and key_env or key_file";

/** Reads a configuration. Throws `ProxyInvalid` with every problem. */
export function parseProxyConfig(text: string, file: string): ProxyConfig {
  const second = "a second document begins here; a configuration has one";
  const opened = openReading<never>(text, { problemOf: () => undefined }, { nothing: NOTHING, second });
  if (!(opened instanceof Reading)) throw new ProxyInvalid(file, opened);
  const config = configIn(opened);
  if (opened.problems.length > 0) throw new ProxyInvalid(file, opened.problems);
  return config;
}

function configIn(reading: Reading): ProxyConfig {
  const root = reading.root();
  const found = reading.known(root, ["providers", "prices", "weights", "estimate"]);
  const place = found.get("providers");
  const members = place === undefined ? [] : reading.members(place);
  if (members.length === 0 && reading.problems.length === 0) {
    reading.fail("empty", place?.keyAt ?? root.valueAt, place?.path ?? "", NOTHING);
  }
  const [prices, weights, estimate] = [found.get("prices"), found.get("weights"), found.get("estimate")];
  return {
    providers: members.map((member) => providerIn(reading, member)),
    prices: prices && pricesIn(reading, prices),
    weights: weights && weightsIn(reading, weights),
    estimate: (estimate && oneOf(reading, estimate, ["learned", "plain"])) ?? "learned",
  };
}

/** Paths of the proxy itself. */
const RESERVED: readonly string[] = ["healthz", "readyz"];

function providerIn(reading: Reading, member: Member): ProviderConfig {
  reading.isNamed(member, (name) => {
    if (/^[a-z0-9][a-z0-9_-]{0,62}$/.test(name) && !RESERVED.includes(name)) return;
    throw new ValidationError(
      "name_invalid",
      `"${name}" is the first part of a path; give small letters, digits, - and _, and neither healthz nor readyz`,
    );
  });
  const keys = ["wire", "base_url", "key_env", "key_file", "allow"];
  const found = reading.known(member, keys);
  const missing = (key: string) =>
    reading.fail("key_missing", member.keyAt, member.path, `${member.key} has no ${key}; give one`);
  const [wire, baseUrl] = [found.get("wire"), found.get("base_url")];
  if (wire === undefined) missing("wire");
  if (baseUrl === undefined) missing("base_url");
  const [keyEnv, keyFile, allow] = [found.get("key_env"), found.get("key_file"), found.get("allow")];
  if (keyEnv === undefined && keyFile === undefined) missing("key_env or key_file");
  if (keyEnv !== undefined && keyFile !== undefined) {
    reading.fail("value_invalid", keyFile.keyAt, keyFile.path, "key_env and key_file are both here; keep one of them");
  }
  const key = keyFile === undefined ? { env: text(reading, keyEnv) } : { file: text(reading, keyFile) };
  return {
    name: member.key,
    wire: (wire && oneOf(reading, wire, ["openai", "anthropic"])) ?? "openai",
    baseUrl: (baseUrl && addressIn(reading, baseUrl)) ?? "",
    key,
    allow: allow === undefined ? [] : reading.items(allow, "calls").map((item) => callIn(reading, item)),
  };
}

function text(reading: Reading, entry: DocumentEntry | undefined): string {
  const value = entry && reading.text(entry);
  if (entry !== undefined && value === "") reading.invalid(entry, "give a name here, not an empty string");
  return value ?? "";
}

function oneOf<Choice extends string>(
  reading: Reading,
  entry: DocumentEntry,
  choices: readonly Choice[],
): Choice | undefined {
  const value = reading.scalar(entry);
  return (
    choices.find((choice) => choice === value) ??
    reading.invalid(entry, `give ${choices.join(" or ")}, not ${reading.shown(entry)}`)
  );
}

function addressIn(reading: Reading, entry: DocumentEntry): string | undefined {
  const value = reading.text(entry);
  if (value === undefined) return undefined;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  // An address may have a password in it, so that it is not shown.
  if (url !== undefined && /^https?:\/\/[^@?#]+$/.test(url.href)) return url.href.replace(/\/+$/, "");
  return reading.invalid(entry, "give an http or https URL without user, query or fragment");
}

function callIn(reading: Reading, entry: DocumentEntry): string {
  const value = reading.text(entry) ?? "";
  if (/^[A-Z]+ \/[^\s?#]*$/.test(value)) return value;
  reading.invalid(entry, `give a method and a path, such as "POST /v1/messages/count_tokens"`);
  return value;
}

function pricesIn(reading: Reading, entry: DocumentEntry): PricesFile {
  if (!reading.isMap(entry)) return { file: text(reading, entry), litellmAsOf: undefined };
  const found = reading.known(entry, ["litellm", "as_of"]);
  for (const key of ["litellm", "as_of"]) {
    if (found.has(key)) continue;
    reading.fail("key_missing", entry.keyAt, entry.path, `prices has no ${key}; give { litellm: FILE, as_of: DATE }`);
  }
  return { file: text(reading, found.get("litellm")), litellmAsOf: text(reading, found.get("as_of")) };
}

function weightsIn(reading: Reading, entry: DocumentEntry): Readonly<Record<string, KindWeights>> {
  const measures = reading.eachNamed(entry, checkMeasure, (member) => {
    const kinds = [...reading.known(member, TOKEN_KINDS).values()].map((kind) => {
      const value = reading.scalar(kind);
      if (typeof value === "number" && Number.isFinite(value) && value >= 0) return [kind.key, value] as const;
      reading.invalid(kind, `give a number, 0 or more, not ${reading.shown(kind)}`);
      return [kind.key, 0] as const;
    });
    return [[member.key, given(Object.fromEntries(kinds))] as const];
  });
  return Object.fromEntries(measures);
}
