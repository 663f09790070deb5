"""The ledger: what is known of every call, and who may create which contact. The truth of the bridge; RQ is only delivery."""
