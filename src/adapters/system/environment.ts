/** The settings of this process's environment. An empty value counts as absent. */
export function fromEnvironment(
  name: "ZAEL_STORE" | "ZAEL_NAMESPACE" | "ZAEL_STACK" | "AWS_PROFILE",
): string | undefined {
  const value = process.env[name];
  return value === undefined || value === "" ? undefined : value;
}
