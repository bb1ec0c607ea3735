import { execFileSync } from "node:child_process";
import { join } from "node:path";

/** A certificate with its key, in files; of its own if nobody signs it. */
export function certificate(folder: string, name: string, more: readonly string[]) {
  const [cert, key] = [join(folder, `${name}.crt`), join(folder, `${name}.key`)];
  const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"];
  execFileSync("openssl", [...made, "-keyout", key, "-out", cert, "-subj", `/CN=${name}`, ...more], { stdio: "pipe" });
  return { cert, key };
}
