"""Texts without the secrets of an address: passwords and tokens are found by value, in all forms."""

import base64
import os
import re
from urllib.parse import quote, unquote

#: Variables of the environment that hold secrets of a tracking server.
SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "WANDB_API_KEY")
#: `name=value` behind the path of an address.
QUERY = re.compile(r"([?&#;][^=&#;\s]+=)([^&#;\s'\")]+)")


def without_secrets(text: str, uri: str = "") -> str:
    """Remove `user:password@` and the values of queries from all addresses of a text.

    Args:
        text: that is to be shown.
        uri: an address whose parts the text may quote; its password may hold slashes and signs of any kind.
    """
    user, at, _ = uri.partition("://")[2].rpartition("@")
    secrets = [user, user.partition(":")[2]] if at and ":" in user and not uri.startswith("sqlite") else []
    secrets += [*(value for _, value in QUERY.findall(uri)), *(os.environ.get(name, "") for name in SECRETS)]
    for form in sorted({form for secret in secrets if secret for form in forms_of(secret)}, key=len, reverse=True):
        text = text.replace(f"{form}@", "").replace(form, "…")
    return QUERY.sub(r"\1…", re.sub(r"//[^/\s]*@", "//", text))


def forms_of(secret: str) -> set[str]:
    """A secret as it is, quoted, unquoted, backwards, and in base64."""
    spelled = {secret, quote(secret, ""), unquote(secret)}
    encoded = {base64.b64encode(form.encode()).decode().rstrip("=") for form in spelled}
    return spelled | encoded | {form[::-1] for form in spelled | encoded}
