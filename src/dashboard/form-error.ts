/** What stands in a field cannot be sent: the page itself says so, and the service was not asked. */
export class FormError extends Error {}
