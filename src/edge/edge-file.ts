import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { type FileProblem, type ProblemCode, problemLines } from "../manifest/manifest.ts";
import type { Template } from "./template.ts";

/** The file of an edge: what the calls of each domain become. */
export interface EdgeFile {
  readonly domains: ReadonlyMap<string, EdgeDomain>;
  /** Notes about rules that work and are probably mistakes. */
  readonly warnings: readonly string[];
}

/** The rules by which descriptors of one domain become requests. */
export interface EdgeDomain {
  readonly namespace: string;
  /** Whether a descriptor that no rule matches is let through or refused. */
  readonly unmatched: "allow" | "refuse";
  /** Whether `is_negative_hits` gives back. */
  readonly refunds: boolean;
  /** Whether answers show limits of parents, too. */
  readonly levels: "own" | "all";
  /** The first that matches counts. */
  readonly rules: readonly EdgeRule[];
  /** The way in which a request of forward auth becomes descriptors. Undefined: the domain has none. */
  readonly http: EdgeHttp | undefined;
}

/** The values of a key that a rule matches: any, or one of these. */
export type Matcher = "any" | ReadonlySet<string>;

/** An amount of a measure: the hits of the descriptor, or a number. */
export type RuleAmount = "hits" | number;

/** One rule: which descriptors it matches, and what they take. */
export interface EdgeRule {
  /** Exactly these keys, in any order. */
  readonly match: ReadonlyMap<string, Matcher>;
  readonly entity: Template;
  readonly resource: Template;
  readonly consume: readonly (readonly [measure: string, amount: RuleAmount])[];
  /** `charge`: debited in full, never refused. */
  readonly mode: "take" | "charge";
  /** The take is a lease for so long. Undefined: it is settled at once. */
  readonly holdMs: number | undefined;
  /** The end of a lease that nobody settles. Undefined: the one that the service has. */
  readonly onExpiry: "charge" | "refund" | undefined;
}

/** Where the value of an entry comes from. */
export type EntrySource =
  | { readonly kind: "header" | "query"; readonly name: string }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "path" | "method" | "host" | "client" };

/** The way in which a request of forward auth becomes descriptors. */
export interface EdgeHttp {
  readonly entries: ReadonlyMap<string, EntrySource>;
  /** The keys of each descriptor. */
  readonly descriptors: readonly (readonly string[])[];
  /** Undefined: one hit. */
  readonly hits: EntrySource | undefined;
  /** The client is so many addresses from the right of `X-Forwarded-For`. */
  readonly trustedHops: number;
}

/** The key of an entry that settles a lease; rules cannot match it. */
export const LEASE_KEY = "zael_lease";

/** The kind of a problem that only edge files have. */
export type EdgeProblemCode = "template_ambiguous" | "template_unknown" | "rule_unreachable";

/** One thing that is wrong with an edge file, and where. */
type EdgeProblem = FileProblem<ProblemCode | EdgeProblemCode>;

/** Everything that is wrong with an edge file, at once. */
export class EdgeInvalid extends ValidationError {
  readonly file: string | undefined;
  /** The problems, in the order of the file. */
  readonly problems: readonly EdgeProblem[];

  constructor(file: string | undefined, problems: readonly EdgeProblem[]) {
    super("edge_invalid", problemLines(file, problems));
    this.file = file;
    this.problems = problems;
  }

  override toJSON(): Record<string, unknown> {
    return { ...super.toJSON(), ...given({ file: this.file }), problems: this.problems };
  }
}
