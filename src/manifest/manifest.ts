import { ValidationError } from "../domain/errors.ts";
import type { DeclaredPiece } from "../domain/piece.ts";

/** What a file declares. */
export interface Manifest {
  /** Absent: that of the limiter it is planned on. */
  readonly namespace?: string;
  /** Whose the pieces are; absent: as the plan says, else `default`. */
  readonly owner?: string;
  /** What it declares, each piece by itself. */
  readonly pieces: readonly DeclaredPiece[];
  /** What is probably not meant, though it can be applied. */
  readonly warnings: readonly string[];
  /** What it was read from; a saved plan takes it along. */
  readonly text?: string;
}

/** What kind of problem it is; stable. */
export type ProblemCode =
  | "yaml_syntax"
  | "empty"
  | "key_unknown"
  | "key_duplicate"
  | "key_missing"
  | "name_invalid"
  | "value_invalid"
  | "limit_invalid"
  | "cron_invalid";

/** One thing that is wrong with a manifest, and where. */
export interface ManifestProblem {
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
  /** A JSON pointer: `/resources/gpt-4/limits/rpm/capacity`. */
  readonly path: string;
  /** Stable: programs may branch on it. */
  readonly code: ProblemCode;
  /** What is wrong, with the value and the remedy. */
  readonly message: string;
}

/** Everything that is wrong with a manifest, at once. */
export class ManifestInvalid extends ValidationError {
  /** Absent where the text came from no file. */
  readonly file: string | undefined;
  /** In the order of the file. */
  readonly problems: readonly ManifestProblem[];

  /** @internal */
  constructor(file: string | undefined, problems: readonly ManifestProblem[]) {
    const where = file === undefined ? "" : `${file}:`;
    super(
      "manifest_invalid",
      problems.map(({ line, column, message }) => `${where}${line}:${column}: ${message}`).join("\n"),
    );
    this.file = file;
    this.problems = problems;
  }

  override toJSON(): Record<string, unknown> {
    return { ...super.toJSON(), ...(this.file === undefined ? {} : { file: this.file }), problems: this.problems };
  }
}

/** The owner of a manifest that names none. */
export const OWNER_DEFAULT = "default";
