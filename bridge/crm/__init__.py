"""The CRM: one port (`base`), GoHighLevel behind it, and the shared rate budget in front of it."""
