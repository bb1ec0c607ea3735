// Stands in for @aws-sdk/credential-providers in the code of the stack's functions.

/** Read with every call: a function that is thawed may have been given others. */
export function fromNodeProviderChain() {
  return async () => {
    const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = process.env;
    if (AWS_ACCESS_KEY_ID === undefined || AWS_SECRET_ACCESS_KEY === undefined) {
      throw Object.assign(new Error("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not in the environment."), {
        name: "CredentialsProviderError",
      });
    }
    return {
      accessKeyId: AWS_ACCESS_KEY_ID,
      secretAccessKey: AWS_SECRET_ACCESS_KEY,
      ...(AWS_SESSION_TOKEN === undefined ? {} : { sessionToken: AWS_SESSION_TOKEN }),
    };
  };
}

/** There are no profiles on Lambda. */
export const fromIni = fromNodeProviderChain;
